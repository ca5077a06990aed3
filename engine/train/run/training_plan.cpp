#include "train/run/training_plan.hpp"

#include "batch/drawn_example.hpp"
#include "plugin/composition/compose.hpp"
#include "plugin/instances/rollout_use.hpp"
#include "program/lowering/optimizer.hpp"
#include "program/program.hpp"
#include "train/run/described_training.hpp"
#include "train/run/example_origin.hpp"
#include "train/run/prepared_run.hpp"
#include "train/step/loss_counts.hpp"
#include "train/update/moving_average.hpp"

#include <algorithm>

namespace hekla::train {
namespace {

// Returns the tokens that are predicted in a step: those of some examples, for as many as a step has.
Result<double> label_tokens_of_step(const DescribedTraining& training) {
    constexpr uint64_t kMost = 256, kRows = 8; // examples, and those of a batch
    const PreparedRun& run = training.run;
    if (!run.origin->repeats_rows()) return 0.0; // rollouts
    const Split& split = run.data.train();
    const uint64_t some = std::min(kMost, split.size());
    double tokens = 0.0;
    for (uint64_t first = 0; first < some; first += kRows) {
        std::vector<batch::DrawnExample> examples;
        for (uint64_t i = first; i < std::min(some, first + kRows); ++i)
            examples.push_back(split.at(i * split.size() / some));
        std::vector<data::Field> fields;
        HK_TRY(split.make_fields(*training.composition, examples, static_cast<uint64_t>(run.recipe.train.seed), kRows,
                                 run.recipe.train.context_length, fields, run.context.host_memory, 0));
        tokens += label_tokens(fields);
    }
    const double examples_of_row = static_cast<double>(split.size()) / static_cast<double>(split.rows());
    return tokens / static_cast<double>(some) * examples_of_row * run.examples_per_step();
}

} // namespace

Result<TrainingPlan> plan_training(const DescribedTraining& training, const program::Target& target,
                                   std::map<std::string, std::string> choices, int64_t steps_left) {
    const PreparedRun& run = training.run;
    const TrainSection& s = run.recipe.train;
    program::Estimator estimator(target);
    HK_ASSIGN(graph::Graph graph, training.differentiated(s.context_length));
    HK_TRY(estimator.add_store(training.parameters_read_by(graph), training.store_options()));
    const program::CompileOptions options = training.step_options(std::move(choices));
    // A rank takes its share of the micro-batches.
    const double micro = static_cast<double>(s.gradient_accumulation_steps) * run.division.share_of_step();
    program::Lowering step;
    for (const Alternation::Turn& turn : training.alternation.turns()) {
        if (!turn.losses.empty()) { HK_ASSIGN(graph, training.differentiated(s.context_length, turn)); }
        HK_ASSIGN(step, estimator.add(graph, options, micro * turn.share));
    }
    HK_TRY(training.frozen_layers.estimate(estimator));
    for (const auto& [length, described] : training.by_length) {
        if (length == s.context_length) continue;
        HK_ASSIGN(const graph::Graph shorter, training.differentiated(described));
        HK_TRY(estimator.add(shorter, options, 0.0).status());
    }
    HK_TRY(run.origin->estimate_evaluations(estimator, training, options));
    HK_TRY(Optimizer::estimate(estimator, step, training.updates.settings(), training.optimizer_rules()));
    HK_TRY(MovingAverage::estimate(estimator, step, s.ema_decay));
    const std::vector<program::ParameterEntry> all = program::parameter_table(training.graph());
    std::vector<std::string> names;
    for (const program::ParameterEntry& entry : all) names.push_back(entry.name);
    const Depth depth = depths(names, training.body);
    int64_t embeddings = 0;
    for (const program::ParameterEntry& entry : all)
        if (depth.of.at(entry.name) == 0) embeddings += entry.shape.elements();
    HK_ASSIGN(const double label_tokens, label_tokens_of_step(training));
    HK_ASSIGN(const uint64_t on_host, run.origin->estimate_examples(estimator, training));
    const std::vector<program::StoreChunk> chunks(estimator.chunks().begin(), estimator.chunks().end());
    TrainingPlan plan{estimator.finish(),
                      s.per_device_train_batch_size,
                      s.context_length,
                      steps_left,
                      embeddings,
                      run.data.train().size(),
                      label_tokens,
                      on_host,
                      {}};
    plan.exchange = run.division.plan(chunks, run.recipe, training.graph(), run.context.planned,
                                      plan.estimate.seconds / std::max(1.0, micro));
    return plan;
}

} // namespace hekla::train
