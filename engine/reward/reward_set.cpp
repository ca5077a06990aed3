#include "reward/reward_set.hpp"

#include "base/nearest_name.hpp"
#include "program/runtime_source.hpp"
#include "reward/lexicon.hpp"
#include "reward/model_reward.hpp"
#include "reward/plugin_reward.hpp"
#include "reward/rules.hpp"

#include "hekla/plugin/draft/reward.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>

namespace hekla::reward {
namespace {

using Make = Result<std::unique_ptr<Reward>> (*)(StrictTable&);
constexpr std::pair<const char*, Make> kRules[] = {{"exact_match", make_exact_match},
                                                   {"regex", make_regex},
                                                   {"length", make_length},
                                                   {"arithmetic", make_arithmetic},
                                                   {"lexicon", make_lexicon}};

Result<std::unique_ptr<Reward>> make_reward(const RewardSpec& spec, const plugin::Registry& registry,
                                            const program::RuntimeSource& device, const Log& log) {
    TableReading reading;
    reading.null_is_absent = true;
    const std::string path = "rewards." + spec.name;
    StrictTable keys(spec.config, reading, path, fmt::format("[{}]", path));
    for (const auto& [id, make] : kRules)
        if (spec.id == id) return make(keys);
    if (spec.id == "model") return make_model_reward(keys, registry, device, log);
    if (registry.provides(HK_REWARD_DRAFT, spec.id))
        return make_plugin_reward(spec.name, spec.id, spec.config, registry);
    const std::vector<std::string> known = built_in_rewards();
    return not_found(fmt::format(
        "rewards.{}.id: there is no reward '{}'{}", spec.name, spec.id,
        did_you_mean(spec.id, known, fmt::format(" (there are {}, and those of plugins)", fmt::join(known, ", ")))));
}

} // namespace

std::vector<std::string> built_in_rewards() {
    std::vector<std::string> ids;
    for (const auto& [id, make] : kRules) ids.emplace_back(id);
    ids.emplace_back("model");
    return ids;
}

Result<RewardSet> RewardSet::create(std::span<const RewardSpec> specs, const plugin::Registry& registry,
                                    const program::RuntimeSource& device, const Log& log) {
    RewardSet set;
    for (const RewardSpec& spec : specs) {
        HK_ASSIGN(std::unique_ptr<Reward> made, make_reward(spec, registry, device, log));
        set.rewards_.push_back(std::move(made));
        set.specs_.push_back(spec);
    }
    return set;
}

Result<std::vector<std::string>> columns_of_rewards(std::span<const RewardSpec> specs,
                                                    const plugin::Registry& registry) {
    std::vector<RewardSpec> rules(specs.begin(), specs.end());
    std::erase_if(rules, [](const RewardSpec& spec) { return spec.id == "model"; }); // reads no column
    HK_ASSIGN(const RewardSet set, RewardSet::create(rules, registry, {}, {}));
    return set.columns();
}

std::vector<std::string> RewardSet::columns() const {
    std::vector<std::string> all;
    for (const auto& one : rewards_)
        for (std::string& column : one->columns())
            if (std::ranges::find(all, column) == all.end()) all.push_back(std::move(column));
    return all;
}

Result<Scores> RewardSet::score(std::span<const TextToScore> texts) const {
    Scores scores;
    scores.total.assign(texts.size(), std::numeric_limits<double>::quiet_NaN());
    for (std::size_t r = 0; r < rewards_.size(); ++r) {
        const RewardSpec& spec = specs_[r];
        std::vector<double>& own =
            scores.of_rewards.emplace_back(texts.size(), std::numeric_limits<double>::quiet_NaN());
        if (const Status scored = rewards_[r]->score(texts, own); !scored.ok())
            return scored.with_context(fmt::format("rewards.{}", spec.name));
        for (std::size_t i = 0; i < texts.size(); ++i) {
            if (!std::isfinite(own[i])) {
                own[i] = std::numeric_limits<double>::quiet_NaN();
                continue;
            }
            if (spec.clip > 0.0) own[i] = std::clamp(own[i], -spec.clip, spec.clip);
            scores.total[i] = (std::isnan(scores.total[i]) ? 0.0 : scores.total[i]) + spec.weight * own[i];
        }
    }
    return scores;
}

} // namespace hekla::reward
