#include "train/training_run.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/stopwatch.hpp"
#include "model/checkpoint.hpp"
#include "model/read_beside_training.hpp"
#include "plugin/composition/compose.hpp"
#include "plugin/instances/rollout_use.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"
#include "program/runtime_source.hpp"
#include "train/evaluation/evaluate.hpp"
#include "train/evaluation/text_evaluator.hpp"
#include "train/evaluation/token_loss.hpp"
#include "train/ranks/greeting.hpp"
#include "train/ranks/rank_command.hpp"
#include "train/run/choose_origin.hpp"
#include "train/run/compiled_training.hpp"
#include "train/run/described_training.hpp"
#include "train/run/prepared_run.hpp"
#include "train/run/run_mask.hpp"
#include "train/run/state_tensor.hpp"
#include "train/run/training_plan.hpp"
#include "train/run/training_state.hpp"
#include "train/start/fit.hpp"
#include "train/update/prune_weights.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>

namespace hekla::train {
namespace {

constexpr double kLongStep = 2.0; // seconds at the device's peak; longer steps are measured with one example

// Opens the data of a described training, and resolves train.max_steps where it follows from the data.
Status open_data(PreparedRun& run, const DescribedTraining& training) {
    HK_TRY(run.open_data(*training.composition));
    run.origin->resolve_steps(run, training);
    run.resolve_epochs();
    return {};
}

} // namespace

TrainingRun::TrainingRun(const plugin::Registry& registry, std::pmr::memory_resource* host_memory, const Log& log,
                         const TrainerEvents& events, exchange::Communicator* ranks)
    : context_{registry, host_memory, ranks != nullptr ? *ranks : alone_, log, events} {}
TrainingRun::~TrainingRun() = default;

Result<std::unique_ptr<TrainingRun>> TrainingRun::create(const Recipe& recipe, const plugin::Registry& registry,
                                                         const program::RuntimeSource& device, const Log& log,
                                                         const TrainerEvents& events, Purpose purpose,
                                                         exchange::Communicator* ranks) {
    const auto open = [&]() -> Result<std::unique_ptr<TrainingRun>> {
        std::unique_ptr<TrainingRun> t(new TrainingRun(registry, device.host_memory(), log, events, ranks));
        HK_TRY(t->open(recipe, device, purpose));
        return t;
    };
    return purpose == Purpose::read ? model::read_beside_training(recipe.output.dir, open) : open();
}

Status TrainingRun::open(const Recipe& recipe, const program::RuntimeSource& device, Purpose purpose) {
    const bool trains = purpose == Purpose::train;
    std::unique_ptr<RankStart> from_rank_0;
    RunFolder folder;
    HK_TRY(greet(context_, recipe));
    if (purpose == Purpose::join) {
        HK_ASSIGN(RankStart start, receive_start(context_, recipe));
        from_rank_0 = std::make_unique<RankStart>(std::move(start));
    }
    if (trains) { HK_ASSIGN(folder, RunFolder::own(recipe.output.dir)); }
    HK_ASSIGN(prepared_, PreparedRun::read(recipe, context_, purpose, origin_of(recipe, context_.registry),
                                           std::move(folder), std::move(from_rank_0)));
    HK_TRY(describe());
    HK_ASSIGN(program::Runtime * runtime, device.get());
    const TrainSection& s = prepared_->recipe.train;
    if (s.fit) HK_TRY(fit(*runtime));
    HK_TRY(check_fits(*described_->composition, *runtime, s.per_device_train_batch_size, s.context_length,
                      described_->fit_options()));
    HK_TRY(open_data(*prepared_, *described_));
    if (trains) HK_TRY(prepared_->check_validation());
    if (trains) HK_TRY(prepared_->origin->check_labels(*prepared_, *described_));
    HK_TRY(prepared_->tell_text_rules(described_->policy, *described_->composition));
    if (trains) HK_TRY(send_start(*prepared_));
    HK_TRY(compare_runs(*prepared_, described_->graph(), runtime->gpu().capabilities()));
    HK_TRY(context_.events.stop.check_now("preparing the training"));
    Result<std::unique_ptr<CompiledTraining>> compiled = CompiledTraining::create(*described_, *runtime);
    if (compiled.code() == Code::out_of_memory)
        return out_of_memory(fmt::format("the device has no memory for this training: {}; make "
                                         "train.per_device_train_batch_size smaller, or make the model smaller",
                                         compiled.message()));
    HK_ASSIGN(compiled_, std::move(compiled));
    if (purpose != Purpose::join) HK_TRY(compiled_->measure_peak()); // rank 0 reports
    state_ = std::make_unique<TrainingState>(*compiled_);
    HK_TRY(state_->begin(purpose == Purpose::initial));
    if (data().valid() == nullptr || !(trains || purpose == Purpose::join)) return {};
    return compiled_->strategy->rehearse([this](exchange::Communicator* ranks) {
        return compiled_->validation->rehearse_texts(*data().valid(), step(), ranks);
    });
}

Status TrainingRun::describe() {
    HK_ASSIGN(described_, DescribedTraining::create(*prepared_));
    return {};
}

Status TrainingRun::fit(program::Runtime& runtime) {
    TrainSection& s = prepared_->recipe.train;
    const int64_t parts = prepared_->recipe.distributed.parts;
    const int64_t whole = s.per_device_train_batch_size * s.gradient_accumulation_steps / parts; // rows of a part
    const auto choose = [&] {
        return largest_fitting_batch(*described_->composition, runtime, whole, s.context_length,
                                     described_->fit_options());
    };
    HK_ASSIGN(std::optional<int64_t> batch, choose());
    if (!batch && !s.gradient_checkpointing) {
        s.gradient_checkpointing = true;
        HK_TRY(describe());
        HK_ASSIGN(batch, choose());
    }
    if (!batch) return {}; // check_fits() reports what is missing
    const bool other = *batch != s.per_device_train_batch_size;
    s.per_device_train_batch_size = *batch;
    s.gradient_accumulation_steps = whole / *batch * parts;
    context_.message(fmt::format("fits: micro-batches of {}, {} per step{}", *batch, s.gradient_accumulation_steps,
                                 s.gradient_checkpointing ? ", activations of blocks are recomputed" : ""));
    return other ? describe() : Status();
}

Result<TrainingPlan> TrainingRun::plan(const Recipe& recipe, const plugin::Registry& registry,
                                       const program::Target& target, const Log& log, const TrainerEvents& events,
                                       const PlannedRanks& ranks) {
    if (recipe.train.fit)
        return failed_precondition(
            "train.fit depends on the free memory of a device: set the micro-batch that it would "
            "choose, or plan on that device");
    exchange::Communicator alone;
    const RunContext context{registry, std::pmr::new_delete_resource(), alone, log, events, ranks};
    HK_ASSIGN(const std::unique_ptr<PreparedRun> prepared,
              PreparedRun::read(recipe, context, Purpose::read, origin_of(recipe, registry)));
    HK_ASSIGN(const std::unique_ptr<DescribedTraining> described, DescribedTraining::create(*prepared));
    HK_TRY(open_data(*prepared, *described)); // for the validation data, and the steps of an epoch
    HK_TRY(prepared->check_validation());
    return plan_training(*described, target, {}, prepared->recipe.train.max_steps);
}

Result<TrainingPlan> TrainingRun::plan() const {
    return plan_training(*described_, program::target_of(compiled_->runtime), compiled_->known.by_key(),
                         recipe().train.max_steps - step());
}

Result<WeightMask> TrainingRun::prunable(const Recipe& recipe, const plugin::Registry& registry, const Log& log,
                                         const TrainerEvents& events) {
    if (!recipe.value.from.empty())
        return unsupported(fmt::format("value.from = {}: `hekla prune` prunes one network: remove [value], and set "
                                       "head.id = \"lm+value\"",
                                       recipe.value.from));
    exchange::Communicator alone;
    const RunContext context{registry, std::pmr::new_delete_resource(), alone, log, events};
    HK_ASSIGN(const std::unique_ptr<PreparedRun> prepared,
              PreparedRun::read(recipe, context, Purpose::read, origin_of(recipe, registry)));
    HK_ASSIGN(const std::unique_ptr<DescribedTraining> described, DescribedTraining::create(*prepared));
    HK_ASSIGN(WeightMask mask, prunable_weights(recipe, described->parameters(), described->body));
    for (const auto& [name, tensor] : described->mask.tensors()) {
        if (mask.find(name) == nullptr)
            return invalid_argument(fmt::format("{}: has a mask of '{}', which [prune] does not prune: it is in "
                                                "prune.exclude, or has one dimension",
                                                recipe.prune.from_mask, name));
        mask.tensors()[name] = tensor;
    }
    return mask;
}

std::optional<int64_t> TrainingRun::rewind_step() const {
    const PruneSection& p = recipe().prune;
    return p.rewind_step > 0 && p.weights_from.empty() ? std::optional(p.rewind_step) : std::nullopt;
}

Status TrainingRun::start() {
    HK_TRY(prepared_->start(*described_->composition));
    HK_TRY(keep_mask(described_->mask, folder()));
    return write_file_atomically(folder() / kKernelsFile, compiled_->kernels().json().dump(1) + "\n");
}

Result<bool> TrainingRun::has_token_loss() const {
    HK_ASSIGN(const std::vector<plugin::BatchField> fields,
              composition().batch_fields(1, prepared_->row_lengths().front()));
    HK_ASSIGN(const graph::Graph graph, composition().build(HK_MODE_EVALUATE, fields));
    return is_token_loss(graph, tokenizer().vocabulary_size());
}

Status TrainingRun::synchronize() {
    HK_TRY(command(context_.ranks, {RankCommand::Task::synchronize, step()}));
    HK_TRY(compiled_->strategy->synchronize(step()));
    return compiled_->source->synchronize(context_.ranks);
}

Status TrainingRun::end_ranks() { return command(context_.ranks, {RankCommand::Task::end}); }

Status TrainingRun::roll_out() {
    if (!rollouts_due()) return {};
    const bool owned = prepared_->owned.owned();
    if (step() == 0 && owned) HK_TRY(write_samples());
    HK_TRY(command(context_.ranks, {RankCommand::Task::roll_out, step()}));
    return compiled_->source->refill(step(), owned, context_.ranks);
}

Status TrainingRun::draw(int64_t steps, const std::function<Status(const std::vector<data::Batch>&)>& take) {
    HK_TRY(roll_out());
    HK_ASSIGN(const std::unique_ptr<data::Batcher> batcher, batches(step()));
    const int64_t end = compiled_->source->end(step(), std::min(recipe().train.max_steps, step() + steps));
    for (int64_t step = this->step(); step < end; ++step) {
        HK_ASSIGN(const std::optional<std::vector<data::Batch>> micro, next_micro_batches(*batcher));
        if (!micro) return {Code::cancelled, "stopped while waiting for a batch"};
        HK_TRY(take(*micro));
    }
    return {};
}

Result<std::unique_ptr<data::Batcher>> TrainingRun::batches(int64_t from_step) const {
    return compiled_->batches(from_step, recipe().train.per_device_train_batch_size);
}

void TrainingRun::end_batches(data::Batcher& batcher) {
    train::end_batches(batcher, context_.events, compiled_->batch_maker());
    compiled_->validation->end_batches();
}

Result<StepLoss> TrainingRun::gradients(const std::vector<data::Batch>& micro, int64_t step) {
    HK_TRY(compiled_->prepare_step(step));
    compiled_->taps.skip_step();
    return compiled_->strategy->gradients(micro, step);
}

Status TrainingRun::begin_step(const std::vector<data::Batch>& micro, int64_t step, double learning_rate) {
    HK_TRY(compiled_->strategy->announce(step));
    HK_TRY(compiled_->prepare_step(step));
    compiled_->taps.begin_step(step + 1);
    return compiled_->strategy->begin(micro, step, learning_rate);
}

Result<TakenStep> TrainingRun::end_step() {
    HK_ASSIGN(TakenStep taken, compiled_->strategy->end(step()));
    if (!taken.outcome.skipped) HK_TRY(compiled_->average.update(compiled_->optimizers.updates(step(), taken.outcome)));
    const std::vector<std::pair<std::string, double>> of_source = compiled_->source->metrics();
    taken.loss.metrics.insert(taken.loss.metrics.begin(), of_source.begin(), of_source.end());
    return taken;
}

Result<Evaluation> TrainingRun::validate(bool whole) {
    Evaluation result;
    const auto run = [&](exchange::Communicator* ranks) -> Status {
        HK_ASSIGN(result, compiled_->validation->run(*data().valid(), whole, step(), ranks));
        return {};
    };
    const bool averaged = recipe().train.ema_decay > 0.0; // in place of rank 0's weights now
    HK_TRY(whole ? run(nullptr) : compiled_->strategy->evaluate(step(), averaged, run));
    return result;
}

Result<std::optional<uint64_t>> TrainingRun::texts_to_write() const {
    const int64_t wanted = recipe().generate.examples;
    if (wanted > 0) return std::optional(static_cast<uint64_t>(wanted));
    if (wanted == 0 || !data().is_table()) return std::optional<uint64_t>();
    HK_ASSIGN(const TextEvaluator::Kind kind, TextEvaluator::kind_of(composition()));
    return kind == TextEvaluator::Kind::nothing ? std::optional<uint64_t>() : std::optional<uint64_t>(0);
}

Result<Evaluation> TrainingRun::evaluate(On split) {
    const Split* of = split == On::test ? data().test() : data().valid();
    if (of == nullptr)
        return failed_precondition(split == On::test ? std::string("no test data: set data.test")
                                                     : "no validation data: " + data().without_valid());
    HK_ASSIGN(const std::optional<uint64_t> texts, texts_to_write());
    const std::vector<std::string>& random = state_->random();
    if (!random.empty() && prepared_->purpose == Purpose::initial)
        return failed_precondition(
            fmt::format("{} would be random: the body {} does not have it{}", random.front(), recipe().model.from,
                        recipe().adapters.size() > 1 ? ", and of several adapters none brings a head"
                                                     : ", and neither does the adapter"));
    if (!random.empty())
        return failed_precondition(fmt::format(
            "{}: there is no checkpoint, and {} would be random{}: train first, or set [output] dir to a trained run",
            folder().string(), random.front(),
            random.size() > 1 ? fmt::format(", like {} more", random.size() - 1) : ""));
    if (recipe().train.load_best_model_at_end) HK_TRY(load_best());
    HK_TRY(swap_average()); // this run is not trained further
    return compiled_->validation->report(*of, split == On::test, step(), texts);
}

Status TrainingRun::rehearse() {
    if (step() >= recipe().train.max_steps) return {};
    HK_TRY(roll_out());
    HK_ASSIGN(const std::unique_ptr<data::Batcher> batcher, batches(step()));
    HK_ASSIGN(const std::optional<std::vector<data::Batch>> micro, next_micro_batches(*batcher));
    if (!micro) return {Code::cancelled, "stopped while waiting for a batch"};
    HK_TRY(gradients(*micro, step()).status());
    return compiled_->rehearse();
}

Result<TrainingRun::Times> TrainingRun::measure() {
    const TrainSection& s = recipe().train;
    program::CompileOptions options;
    options.outputs = {"loss"};
    options.precision = storage_of(s);
    options.kernel_choices = compiled_->known.by_key();
    options.timings = true;
    // A long step is measured with one example.
    const double flops = program().flops() * static_cast<double>(s.gradient_accumulation_steps);
    const bool slow = !compiled_->programs.has_lengths() && peak_flops() > 0.0 && flops / peak_flops() > kLongStep;
    const int64_t batch = slow ? 1 : s.per_device_train_batch_size;
    HK_TRY(roll_out());
    HK_ASSIGN(const std::unique_ptr<data::Batcher> batcher, compiled_->batches(step(), batch));
    HK_ASSIGN(const std::optional<std::vector<data::Batch>> next, next_micro_batches(*batcher));
    if (!next) return Status(Code::cancelled, "stopped while waiting for a batch");
    const std::vector<data::Batch>& micro = *next;
    graph::Graph measured;
    if (slow) {
        HK_ASSIGN(const std::vector<plugin::BatchField> fields, composition().training_fields(1, s.context_length));
        HK_ASSIGN(const graph::Graph step, described_->describe_step(fields));
        HK_ASSIGN(measured, described_->differentiated(step));
    } else {
        HK_ASSIGN(measured, described_->differentiated(micro[0].length));
    }
    HK_ASSIGN(const auto timed, program::Program::compile(compiled_->runtime, measured, *compiled_->store, options));
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
    HK_TRY(compiled_->set_features(*timed, micro[0]));
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

// What the stages do or have.
Status TrainingRun::save_model(const std::filesystem::path& folder) const { return state_->save_model(folder); }
const Recipe& TrainingRun::recipe() const { return prepared_->recipe; }
const std::filesystem::path& TrainingRun::folder() const { return prepared_->folder; }
const RunData& TrainingRun::data() const { return prepared_->data; }
const text::Tokenizer& TrainingRun::tokenizer() const { return *prepared_->tokenizer; }
const plugin::Composition& TrainingRun::composition() const { return *described_->composition; }
program::Runtime& TrainingRun::runtime() const { return compiled_->runtime; }
program::ParameterStore& TrainingRun::store() { return *compiled_->store; }
const program::Program& TrainingRun::program() const { return compiled_->programs.longest(); }
const StepScalars& TrainingRun::scalars() const { return compiled_->scalars; }
const Taps& TrainingRun::taps() const { return compiled_->taps; }
RunProgress& TrainingRun::progress() { return state_->progress; }
int64_t TrainingRun::step() const { return state_->progress.step; }
double TrainingRun::epochs() const { return compiled_->source->epochs(step(), prepared_->examples_per_step()); }
bool TrainingRun::resumed() const { return prepared_->checkpoint.has_value(); }
Result<bool> TrainingRun::balance_ranks() { return compiled_->strategy->balance(); }
bool TrainingRun::may_stop() const { return compiled_->strategy->may_stop(step()); }
bool TrainingRun::rollouts_due() const { return compiled_->source->is_due(step()); }
Status TrainingRun::write_samples() { return compiled_->source->write_samples(step()); }
double TrainingRun::flops(const std::vector<data::Batch>& micro) const { return compiled_->flops(micro); }
Status TrainingRun::swap_average() { return compiled_->average.swap(); }
Result<std::string> TrainingRun::describe_non_finite(bool gradients) {
    return compiled_->describe_non_finite(gradients);
}
Result<model::CheckpointWriter> TrainingRun::write_checkpoint() { return state_->write_checkpoint(); }
Status TrainingRun::load_checkpoint(const model::Checkpoint& checkpoint) { return state_->load(checkpoint); }
Status TrainingRun::restart() { return state_->restart(); }
Status TrainingRun::load_best() { return state_->load_best(); }
double TrainingRun::peak_flops() const { return compiled_->peak_flops; }
CompiledTraining& TrainingRun::compiled() { return *compiled_; }
std::vector<std::string> TrainingRun::gradient_names() const { return program().gradient_names(); }
Result<double> TrainingRun::loss_scale() const { return compiled_->optimizers.first().loss_scale(); }
Result<std::optional<std::vector<data::Batch>>> TrainingRun::next_micro_batches(data::Batcher& batcher,
                                                                                std::vector<data::Batch> ready) const {
    return compiled_->next_micro_batches(batcher, step(), std::move(ready));
}
void TrainingRun::take_ready_batches(data::Batcher& batcher, std::vector<data::Batch>& micro) const {
    compiled_->take_ready_batches(batcher, micro);
}

} // namespace hekla::train
