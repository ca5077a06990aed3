// Memory and time of a training: estimated for any device, measured on the current one.
#include "base/stopwatch.hpp"
#include "graph/simplify.hpp"
#include "program/lowering/optimizer.hpp"
#include "train/parameter_rules.hpp"
#include "train/training_graph.hpp"
#include "train/training_run.hpp"

#include <algorithm>
#include <chrono>

namespace hekla::train {
namespace {

constexpr double kLongStep = 2.0; // seconds at the device's peak; longer steps are measured with one example

} // namespace

Result<TrainingRun::Plan> TrainingRun::plan(const Recipe& recipe, const plugin::Registry& registry,
                                            const program::Target& target, const Log& log, const TrainerEvents& events,
                                            const PlannedRanks& ranks) {
    if (recipe.train.fit)
        return failed_precondition(
            "train.fit depends on the free memory of a device: set the micro-batch that it would "
            "choose, or plan on that device");
    TrainingRun t(recipe, registry, std::pmr::new_delete_resource(), log, events);
    t.planned_ = ranks;
    HK_TRY(t.read());
    HK_TRY(t.open_data()); // for the validation data, and the steps of an epoch
    HK_TRY(t.check_validation());
    return t.plan(target);
}

Result<TrainingRun::Plan> TrainingRun::plan() const { return plan(program::target_of(*runtime_)); }

Result<TrainingRun::Plan> TrainingRun::plan(const program::Target& target) const {
    const TrainSection& s = recipe_.train;
    program::Estimator estimator(target);
    HK_ASSIGN(graph::Graph graph, differentiated());
    HK_TRY(estimator.add_store(parameters_read_by(graph), store_options()));
    const program::CompileOptions options =
        train_options(runtime_ != nullptr ? recorded_choices() : std::map<std::string, std::string>());
    // A rank takes its share of the micro-batches.
    const double micro = static_cast<double>(s.gradient_accumulation_steps) / (is_sharded() ? rank_count() : 1);
    program::Lowering step;
    for (const Alternation::Turn& turn : alternation_.turns()) {
        if (alternation_.on()) { HK_ASSIGN(graph, differentiated(turn)); }
        HK_ASSIGN(step, estimator.add(graph, options, micro * turn.share));
    }
    if (cut_) {
        HK_ASSIGN(const graph::Graph below, graph::simplify(cut_->below));
        HK_TRY(estimator.add(below, Features::options(*cut_), 0.0).status());
    }
    for (const auto& [length, shorter] : shorter_) {
        HK_ASSIGN(const graph::Graph graph, differentiated(shorter.described));
        HK_TRY(estimator.add(graph, options, 0.0).status());
    }
    if (!learns_from_rollouts_ && (data_.valid() != nullptr || data_.test() != nullptr)) {
        HK_ASSIGN(const auto programs,
                  Evaluator::describe(*composition_, evaluation_batch(), row_lengths(),
                                      EvaluatorOptions{options.precision, options.kernel_choices}));
        for (const auto& [length, one] : programs) HK_TRY(estimator.add(one.graph, one.options, 0.0).status());
    }
    HK_TRY(Optimizer::estimate(estimator, step, updates_.settings(), optimizer_rules()));
    if (s.ema_decay > 0.0) {
        HK_ASSIGN(const MovingAverage::Update average,
                  MovingAverage::update_of(estimator.table(), program::parameters_reached(estimator.table(), step)));
        HK_TRY(estimator.add(average.graph, average.options, 1.0, &program::Estimate::optimizer).status());
    }
    const std::vector<program::ParameterEntry> all = program::parameter_table(described_);
    std::vector<std::string> names;
    for (const program::ParameterEntry& entry : all) names.push_back(entry.name);
    const Depth depth = depths(names, body_);
    int64_t embeddings = 0;
    for (const program::ParameterEntry& entry : all)
        if (depth.of.at(entry.name) == 0) embeddings += entry.shape.elements();
    uint64_t rollouts = 0;
    if (learns_from_rollouts_) { HK_ASSIGN(rollouts, Rollouts::estimate(estimator, rollout_context())); }
    const std::vector<program::StoreChunk> chunks(estimator.chunks().begin(), estimator.chunks().end());
    Plan result{estimator.finish(), s.per_device_train_batch_size, s.context_length, s.max_steps - progress_.step,
                embeddings,         data_.train().size(),          rollouts,         {}};
    if (rank_count() > 1) {
        PlannedRanks ranks = planned_;
        ranks.ranks = rank_count();
        const double micro_seconds =
            ranks.micro_seconds > 0.0 ? ranks.micro_seconds : result.estimate.seconds / std::max(1.0, micro);
        result.exchange = has_islands()
                              ? plan_averages(chunks, recipe_, ranks)
                              : plan_exchange(chunks, recipe_, sharded_options(), described_, ranks, micro_seconds);
    }
    return result;
}

Result<TrainingRun::Times> TrainingRun::measure() {
    const TrainSection& s = recipe_.train;
    program::CompileOptions options;
    options.outputs = {"loss"};
    options.precision = storage_of(recipe_.train);
    options.kernel_choices = recorded_choices();
    options.timings = true;
    // A long step is measured with one example.
    const double flops = train_program_->flops() * static_cast<double>(s.gradient_accumulation_steps);
    const bool slow = shorter_.empty() && peak_flops_ > 0.0 && flops / peak_flops_ > kLongStep;
    const int64_t batch = slow ? 1 : s.per_device_train_batch_size;
    HK_ASSIGN(graph::Graph measured, differentiated());
    if (slow) {
        HK_ASSIGN(const std::vector<plugin::BatchField> fields, composition_->batch_fields(1, s.context_length));
        HK_ASSIGN(const graph::Graph described, build_step(fields));
        HK_ASSIGN(measured, differentiated(described));
    }
    HK_TRY(roll_out());
    HK_ASSIGN(const std::unique_ptr<data::Batcher> batcher, batches(step(), batch));
    HK_ASSIGN(const std::optional<std::vector<data::Batch>> next, next_micro_batches(*batcher));
    if (!next) return Status(Code::cancelled, "stopped while waiting for a batch");
    const std::vector<data::Batch>& micro = *next;
    if (micro[0].length != s.context_length) { HK_ASSIGN(measured, differentiated(described(micro[0].length))); }
    HK_ASSIGN(const auto timed, program::Program::compile(*runtime_, measured, *store_, options));
    HK_TRY(set_fields(*timed, micro[0]));
    double seconds = 1e30;
    for (int i = 0; i < (slow ? 1 : 4); ++i) { // the first of several replays warms up
        const auto begin = std::chrono::steady_clock::now();
        if (slow) {
            HK_TRY(timed->run());
            seconds = seconds_since(begin) * static_cast<double>(s.per_device_train_batch_size) *
                      static_cast<double>(s.gradient_accumulation_steps);
        } else {
            HK_TRY(gradients(micro, step()).status());
            if (i > 0) seconds = std::min(seconds, seconds_since(begin));
        }
    }
    if (features_) HK_TRY(features_->set(*timed, micro[0].examples));
    if (!slow) {
        HK_TRY(timed->run());
        HK_TRY(timed->run());
    }
    Times times;
    times.seconds = seconds;
    times.one_example = slow;
    std::map<std::string, program::NodeCost> nodes;
    for (const program::DispatchTiming& timing : timed->timings()) {
        program::NodeCost& node = nodes[timing.name];
        node.name = timing.name;
        ++node.dispatches;
        node.seconds += timing.seconds;
        node.flops += timing.flops;
        node.bytes += timing.bytes;
    }
    for (auto& [name, node] : nodes) times.nodes.push_back(std::move(node));
    std::ranges::stable_sort(times.nodes, std::greater<>(), &program::NodeCost::seconds);
    return times;
}

} // namespace hekla::train
