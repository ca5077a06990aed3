#include "train/run/rollout_origin.hpp"
#include "generate/decoder.hpp"
#include "infer/passes/likelihood.hpp"
#include "train/rollouts/reference_model.hpp"

#include "base/number_text.hpp"
#include "plugin/composition/compose.hpp"
#include "plugin/instances/rollout_use.hpp"
#include "program/program.hpp"
#include "reward/reward_set.hpp"
#include "train/evaluation/evaluate.hpp"
#include "train/recipe/recipe_rollouts.hpp"
#include "train/rollouts/rollouts.hpp"
#include "train/run/described_training.hpp"
#include "train/run/prepared_run.hpp"
#include "train/run/validation.hpp"
#include "train/start/model_spec.hpp"
#include "train/step/dropout.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::train {

using nlohmann::json;

namespace {

class RolloutValidation final : public Validation {
public:
    RolloutValidation(const Recipe& recipe, int64_t batch, Rollouts& rollouts)
        : recipe_(recipe), batch_(batch), rollouts_(rollouts) {}

    Result<Evaluation> run(const Split& split, bool whole, int64_t /*step*/, exchange::Communicator* ranks) override {
        exchange::Communicator alone;
        return rollouts_.evaluate(split, limit(), whole || recipe_.generate.examples_while_training > 0,
                                  ranks != nullptr ? *ranks : alone);
    }
    Result<Evaluation> report(const Split& split, bool test, int64_t /*step*/, std::optional<uint64_t>) override {
        exchange::Communicator alone;
        return rollouts_.evaluate(split, test ? 0 : limit(), true, alone); // test data is read whole
    }

private:
    uint64_t limit() const { return static_cast<uint64_t>(std::max<int64_t>(recipe_.train.eval_batches, 0) * batch_); }
    const Recipe& recipe_;
    int64_t batch_;
    Rollouts& rollouts_;
};

} // namespace

Division::Used RolloutOrigin::use(const Recipe& recipe) const {
    return {.rollouts = true, .objective = recipe.objective.id};
}

// Leaves the columns that are read from the data, and adds those that rewards read.
Status RolloutOrigin::choose_columns(const Recipe& recipe, const plugin::Registry& registry,
                                     std::vector<plugin::ColumnNeed>& needs) const {
    std::erase_if(needs, [](const plugin::ColumnNeed& need) { return need.optional; }); // made of rollouts
    const std::vector<reward::RewardSpec> specs = reward_specs(recipe);
    HK_ASSIGN(const std::vector<std::string> columns, reward::columns_of_rewards(specs, registry));
    for (const std::string& name : columns)
        if (std::ranges::find(needs, name, &plugin::ColumnNeed::name) == needs.end())
            needs.push_back({name, HK_COLUMN_TOKENS, false, true});
    return {};
}

Status RolloutOrigin::describe(DescribedTraining& training) const {
    const Recipe& recipe = training.run.recipe;
    training.policy.objective.clear();
    training.policy.objective_config = json::object();
    training.policy.teacher.reset();
    if (!recipe.teacher.from.empty())
        return invalid_argument(
            fmt::format("teacher.from = {}: objective '{}' has its frozen model in [reference]: move "
                        "the folder there",
                        recipe.teacher.from, recipe.objective.id));
    HK_ASSIGN(training.rollout_use, plugin::RolloutUse::create(training.run.context.registry, recipe.objective.id,
                                                               training.composition->objective_config()));
    return check_rollouts(recipe, training.rollout_use->needs());
}

void RolloutOrigin::warn_of(const DescribedTraining& training, const graph::Graph& step) const {
    if (training.composition->body_frozen() || !has_dropout(step)) return;
    training.run.context.log.warning(
        "train.disable_dropout = false: completions are written without dropout and trained with it, so the "
        "ratios of probabilities are not those of the policy");
}

void RolloutOrigin::resolve_steps(PreparedRun& run, const DescribedTraining& training) const {
    Recipe& recipe = run.recipe;
    if (recipe.rollout.total_episodes == 0) return;
    const IterationShape shape = iteration_shape(recipe, training.rollout_use->needs());
    const int64_t iterations = (recipe.rollout.total_episodes + shape.completions - 1) / shape.completions;
    recipe.train.max_steps = iterations * shape.steps();
    run.context.message(fmt::format("{} completions: {} iterations of {}, {} steps each, {} steps",
                                    grouped(static_cast<double>(recipe.rollout.total_episodes)), iterations,
                                    shape.completions, shape.steps(),
                                    grouped(static_cast<double>(recipe.train.max_steps))));
}

Result<uint64_t> RolloutOrigin::estimate_examples(program::Estimator& estimator,
                                                  const DescribedTraining& training) const {
    return Rollouts::estimate(estimator, training.rollout_context(nullptr, nullptr));
}

Result<ExampleOrigin::Opened> RolloutOrigin::open(const ValidationContext& context) const {
    HK_ASSIGN(std::unique_ptr<Rollouts> rollouts,
              Rollouts::create(context.training.rollout_context(&context.runtime, &context.store)));
    Opened opened;
    const PreparedRun& run = context.training.run;
    opened.validation = std::make_unique<RolloutValidation>(run.recipe, run.evaluation_batch(), *rollouts);
    opened.source = std::move(rollouts);
    return opened;
}

} // namespace hekla::train
