#include "fine_tuning/row_layout.hpp"

#include "batch/collate.hpp"
#include "data/task_table.hpp"
#include "plugin/composition/compose.hpp"
#include "plugin/instances/rollout_use.hpp"
#include "program/estimate.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"
#include "text/text_encoder.hpp"
#include "train/evaluation/evaluate.hpp"
#include "train/ranks/rank_start.hpp"
#include "train/run/described_training.hpp"
#include "train/run/prepared_run.hpp"
#include "train/start/fit.hpp"
#include "train/update/optimizer.hpp"

#include <algorithm>

namespace hekla::app {
namespace {

constexpr uint64_t kSampled = 512; // rows

// Returns what the training's plan has, without reading the data.
Result<program::Estimate> estimate_of(const train::DescribedTraining& training, const program::Runtime& runtime,
                                      bool evaluates) {
    const train::PreparedRun& run = training.run;
    program::Estimator estimator(program::target_of(runtime));
    HK_ASSIGN(const graph::Graph graph, training.differentiated(run.recipe.train.context_length));
    HK_TRY(estimator.add_store(training.parameters_read_by(graph), training.store_options()));
    const program::CompileOptions options = training.step_options({});
    HK_ASSIGN(const program::Lowering step, estimator.add(graph, options, 1.0));
    if (evaluates) {
        HK_ASSIGN(const auto programs,
                  train::Evaluator::describe(*training.composition, run.evaluation_batch(), run.row_lengths(),
                                             train::EvaluatorOptions{options.precision, options.kernel_choices}));
        for (const auto& [length, one] : programs) HK_TRY(estimator.add(one.graph, one.options, 0.0).status());
    }
    HK_TRY(train::Optimizer::estimate(estimator, step, training.updates.settings(), training.optimizer_rules()));
    return estimator.finish();
}

bool fits(const program::Estimate& need, const train::MemoryRoom& room) {
    const uint64_t wanted = need.total() + need.total() / 10 + room.slack; // pipelines need some, too
    return need.largest <= room.allocation && wanted <= room.free;
}

} // namespace

double RowLengths::mean() const {
    double sum = 0.0;
    for (const int64_t length : sampled) sum += static_cast<double>(length);
    return sum / static_cast<double>(sampled.size());
}

double RowLengths::share_above(int64_t length) const {
    const auto above = std::ranges::upper_bound(sampled, length);
    return static_cast<double>(sampled.end() - above) / static_cast<double>(sampled.size());
}

Result<RowLengths> sample_lengths(const train::PreparedRun& run, const train::DescribedTraining& training,
                                  const text::ChatTemplate* chat) {
    const data::TaskTable& table = *run.data.table();
    RowLengths lengths;
    lengths.rows = table.size();
    const uint64_t every = std::max<uint64_t>(1, table.size() / kSampled);
    const text::TextEncoder encoder(*run.tokenizer, training.composition->text_rules());
    HK_ASSIGN(const data::TaskTable::Encoded encoded, table.encode(encoder, run.data.classes(), chat, every));
    for (uint64_t i = 0; i < encoded.examples->size(); ++i)
        lengths.sampled.push_back(
            std::max<int64_t>(1, batch::example_length(*training.composition, (*encoded.examples)[i])));
    std::ranges::sort(lengths.sampled);
    return lengths;
}

Result<std::optional<RowLayout>> choose_layout(train::PreparedRun& run, program::Runtime& runtime,
                                               const LayoutWish& wish) {
    const train::MemoryRoom room = train::memory_room(runtime);
    train::TrainSection& keys = run.recipe.train;
    const bool always = keys.gradient_checkpointing; // the recipe asks for it
    for (int64_t length = wish.length;; length = std::max(kShortestRow, length / 2)) {
        for (const bool recompute : {false, true}) {
            if (always && !recompute) continue;
            keys.context_length = length;
            keys.gradient_checkpointing = recompute;
            for (int64_t rows = wish.rows > 0 ? wish.rows : wish.step_rows; rows >= 1; rows /= 2) {
                HK_TRY(run.context.events.stop.check_now("choosing a recipe"));
                keys.per_device_train_batch_size = rows;
                HK_ASSIGN(const std::unique_ptr<train::DescribedTraining> training,
                          train::DescribedTraining::create(run));
                const Result<program::Estimate> need = estimate_of(*training, runtime, wish.evaluates);
                if (need.ok() && fits(need.value(), room))
                    return std::optional(RowLayout{rows, length, recompute, need->total(), room.free});
                if (wish.rows > 0) break;
            }
        }
        if (wish.fixed_length || length <= kShortestRow) return std::optional<RowLayout>();
    }
}

} // namespace hekla::app
