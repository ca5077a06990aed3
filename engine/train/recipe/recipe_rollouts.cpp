#include "train/recipe/recipe_rollouts.hpp"

#include "plugin/instances/rollout_use.hpp"

#include "base/nearest_name.hpp"
#include "plugin/composition/compose.hpp"
#include "train/recipe/recipe_adapters.hpp"
#include "train/recipe/recipe_sections.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::train {
namespace {

Status refuse_other_key(const std::string& key) {
    constexpr const char* kDistribution[] = {"top_k",
                                             "top_p",
                                             "min_p",
                                             "typical_p",
                                             "min_new_tokens",
                                             "min_length",
                                             "repetition_penalty",
                                             "do_sample",
                                             "num_beams",
                                             "no_repeat_ngram_size",
                                             "suppress_tokens"};
    if (std::ranges::find(kDistribution, key) != std::end(kDistribution))
        return invalid_argument(
            fmt::format("rollout.{}: completions are drawn from the distribution that is trained, so that their log "
                        "probabilities are those of the draws (otherwise the KL divergence is estimated wrongly and "
                        "may become negative): remove the key; only `temperature` can be set",
                        key));
    std::vector<std::string> known;
    for (const RecipeSection& section : recipe_sections())
        for (const RecipeKey& one : section.keys)
            if (section.name == "rollout" && !one.name.empty()) known.push_back(one.name);
    return invalid_argument(fmt::format("[rollout] has no key '{}'{}", key,
                                        did_you_mean(key, known, fmt::format(" (it has {})", fmt::join(known, ", ")))));
}

} // namespace

Status check_rollout_keys(const Recipe& r) {
    if (!r.rollout.others.empty()) return refuse_other_key(r.rollout.others.begin().key());
    if (r.rollout.stop_token == "none" && r.rollout.missing_eos_penalty > 0.0)
        return invalid_argument(fmt::format(
            "rollout.missing_eos_penalty = {} needs rollout.stop_token = \"eos\": without an end token every "
            "completion lacks it",
            r.rollout.missing_eos_penalty));
    if (r.reference.from == "base" && !has_adapters(r))
        return invalid_argument("reference.from = \"base\" is the network of model.from without the adapter, and this "
                                "recipe trains no adapter: leave it out, or name a folder");
    return {};
}

Status check_without_rollouts(const Recipe& r) {
    const RolloutSection untouched;
    const char* section = !r.rewards.empty()          ? "rewards"
                          : !r.reference.from.empty() ? "reference"
                          : !r.value.from.empty()     ? "value"
                          : r.rollout.batch != untouched.batch ||
                                  r.rollout.total_episodes != untouched.total_episodes ||
                                  r.rollout.num_generations != untouched.num_generations
                              ? "rollout"
                              : nullptr;
    if (section == nullptr) return {};
    return invalid_argument(fmt::format("[{}] is for objectives that learn from completions which the model writes "
                                        "(grpo, ppo), and objective.id is '{}': remove it, or choose another objective",
                                        section, r.objective.id));
}

Status check_rollouts(const Recipe& r, const plugin::RolloutNeeds& needs) {
    const IterationShape shape = iteration_shape(r, needs);
    const int64_t generations = r.rollout.num_generations;
    if (r.rewards.empty())
        return invalid_argument(fmt::format("objective '{}' needs a reward for what the model writes: add a section "
                                            "such as [rewards.exact_match]",
                                            r.objective.id));
    if (generations < needs.least_generations)
        return invalid_argument(
            fmt::format("rollout.num_generations = {}: objective '{}' compares the completions of a "
                        "prompt with each other and needs {} or more",
                        generations, r.objective.id, needs.least_generations));
    if (shape.completions % shape.rows != 0 || shape.completions < shape.rows)
        return invalid_argument(fmt::format("rollout.batch = {} is not a multiple of the {} rows of a step "
                                            "(train.per_device_train_batch_size x train.gradient_accumulation_steps)",
                                            shape.completions, shape.rows));
    if (shape.completions % generations != 0)
        return invalid_argument(fmt::format("rollout.batch = {} is not a multiple of rollout.num_generations = {}",
                                            shape.completions, generations));
    if (!needs.reference && !r.reference.from.empty())
        return invalid_argument(
            fmt::format("reference.from = {}: objective '{}' needs no reference with these keys (beta "
                        "is 0): remove [reference], or set objective.beta",
                        r.reference.from, r.objective.id));
    const std::vector<std::string_view> heads = plugin::head_names(r.head.id);
    const bool has_value_head = std::ranges::find(heads, "value") != heads.end();
    if (!needs.values && !r.value.from.empty())
        return invalid_argument(fmt::format("value.from = {}: objective '{}' needs no value function: remove [value]",
                                            r.value.from, r.objective.id));
    if (has_value_head && !r.value.from.empty())
        return invalid_argument(fmt::format("head.id = \"{}\" is a value function on the policy's network, and "
                                            "value.from = {} is one with its own: remove [value], or set head.id = "
                                            "\"lm\"",
                                            r.head.id, r.value.from));
    if (!r.value.from.empty() && has_adapters(r))
        return unsupported(fmt::format("value.from = {}: with an adapter the value function shares the frozen network: "
                                       "remove [value], and set head.id = \"lm+value\"",
                                       r.value.from));
    if (!r.value.from.empty() && !r.prune.from_mask.empty())
        return unsupported(fmt::format("value.from = {}: a mask (prune.from_mask) is of one network: remove [value], "
                                       "and set head.id = \"lm+value\"",
                                       r.value.from));
    if (r.train.num_train_epochs > 0.0)
        return invalid_argument(
            "train.num_train_epochs counts passes over rows of data, and objectives that learn from "
            "rollouts draw prompts: set rollout.total_episodes or train.max_steps");
    if (!r.adapter.names.empty())
        return unsupported("adapter.names: reinforcement learning trains one adapter for all rows: train them one by "
                           "one");
    if (r.train.fit)
        return unsupported("train.fit does not know the memory of rollouts: set train.per_device_train_batch_size");
    return {};
}

std::vector<reward::RewardSpec> reward_specs(const Recipe& r) {
    std::vector<reward::RewardSpec> specs;
    for (const auto& [name, section] : r.rewards)
        specs.push_back({name, section.id.empty() ? name : section.id, section.weight, section.clip, section.config});
    return specs;
}

IterationShape iteration_shape(const Recipe& r, const plugin::RolloutNeeds& needs) {
    IterationShape shape;
    shape.rows = r.train.per_device_train_batch_size * r.train.gradient_accumulation_steps;
    shape.completions = r.rollout.batch > 0 ? r.rollout.batch : shape.rows;
    shape.epochs = needs.epochs;
    return shape;
}

} // namespace hekla::train
