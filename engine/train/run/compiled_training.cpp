#include "train/run/compiled_training.hpp"

#include "batch/collate.hpp"
#include "graph/output.hpp"
#include "model/finite.hpp"
#include "plugin/composition/compose.hpp"
#include "plugin/instances/rollout_use.hpp"
#include "program/lowering/half.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/program_bench.hpp"
#include "program/runtime.hpp"
#include "program/tuning.hpp"
#include "train/evaluation/evaluate.hpp"
#include "train/ranks/choose_strategy.hpp"
#include "train/ranks/rank_messages.hpp"
#include "train/run/described_training.hpp"
#include "train/run/example_origin.hpp"
#include "train/run/prepared_run.hpp"
#include "train/run/state_tensor.hpp"
#include "train/step/loss_counts.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>

namespace hekla::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Returns the parameters whose gradients a differentiated graph has.
std::vector<std::string> gradients_in(const graph::Graph& graph) {
    std::vector<std::string> names;
    for (auto& [name, value] : graph::outputs_of(graph, graph::OutputKind::gradient)) names.push_back(name);
    return names;
}

BatchMaker batch_maker_of(const DescribedTraining& training) {
    const std::string& id = training.run.recipe.objective.id;
    const Result<plugin::Registry::Entry> entry = training.run.context.registry.find(HK_OBJECTIVE_INTERFACE, id);
    const std::string library =
        entry.ok() && entry->manifest != nullptr ? fmt::format(" ({})", entry->manifest->library) : "";
    return {fmt::format("objective '{}'{}", id, library), training.composition->isolated()};
}

// The kernels that the run started with, from the checkpoint, the run's folder or rank 0.
Result<KernelRecord> kernels_before(const PreparedRun& run, const json& identity) {
    if (run.purpose == Purpose::join) {
        HK_ASSIGN(const json record, hear(run.context.ranks));
        return KernelRecord::from(record, identity);
    }
    const KernelRecord of_folder = KernelRecord::read(run.folder / kKernelsFile, identity);
    if (!run.checkpoint) return of_folder;
    KernelRecord record = KernelRecord::read(run.checkpoint->file("trainer_state.json"), identity);
    record.peak_flops = of_folder.peak_flops;
    return record;
}

} // namespace

CompiledTraining::CompiledTraining(const DescribedTraining& of, program::Runtime& on)
    : training(of), run(of.run), runtime(on), scalars(of.scalars), taps(of.taps) {}

Result<std::unique_ptr<CompiledTraining>> CompiledTraining::create(const DescribedTraining& training,
                                                                   program::Runtime& runtime) {
    std::unique_ptr<CompiledTraining> compiled(new CompiledTraining(training, runtime));
    HK_TRY(compiled->compile());
    return compiled;
}

Status CompiledTraining::compile() {
    const TrainSection& s = run.recipe.train;
    run.context.message("compiling kernels");
    maker_ = batch_maker_of(training);
    HK_ASSIGN(known, kernels_before(run, json(runtime.tuning().identity())));
    KernelChoices choices = known.by_key();
    HK_ASSIGN(graph::Graph graph, training.differentiated(s.context_length));
    const std::vector<std::string> reached = gradients_in(graph); // by any loss
    HK_ASSIGN(store,
              program::ParameterStore::create(runtime, training.parameters_read_by(graph), training.store_options()));
    const Alternation::Turn& first = training.alternation.turns().front();
    if (!first.losses.empty()) { HK_ASSIGN(graph, training.differentiated(s.context_length, first)); }
    HK_ASSIGN(programs, StepPrograms::compile(runtime, *store, training, graph, choices));
    HK_ASSIGN(ExampleOrigin::Opened opened, run.origin->open({training, runtime, *store, scalars, choices, maker_}));
    source = std::move(opened.source);
    validation = std::move(opened.validation);
    HK_ASSIGN(optimizers, Optimizers::create(runtime, *store, training.updates.settings(), training.alternation,
                                             reached, training.optimizer_rules()));
    HK_ASSIGN(average, MovingAverage::create(runtime, *store, reached, s.ema_decay, run.context.ranks));
    StepRunnerOptions steps;
    steps.seed = static_cast<uint64_t>(s.seed);
    steps.rows = s.per_device_train_batch_size;
    steps.program_of = [this](int64_t length) -> program::Program& { return programs.at(length); };
    steps.set_inputs = [this](program::Program& program, const data::Batch& batch) -> Status {
        HK_TRY(scalars.apply(program));
        return set_features(program, batch);
    };
    if (!taps.empty()) steps.observe = [this](program::Program& program) { return taps.read(program); };
    HK_ASSIGN(strategy, strategy_of(run.division,
                                    {run.recipe, training.graph(), runtime, *store, optimizers, run.context.ranks,
                                     [this](const std::string& text) { run.context.message(text); }},
                                    std::move(steps)));
    HK_TRY(tell(run.context.ranks, kernels().json()));
    // Without the cache the next start compiles again, so this is not an error.
    if (const Status saved = runtime.save_caches(); !saved.ok()) run.context.log.warning(saved.message());
    return {};
}

Status CompiledTraining::measure_peak() {
    const program::Storage precision = storage_of(run.recipe.train);
    HK_ASSIGN(const program::Peak peak, program::peak_of(runtime, precision));
    // A device that others use at the same time measures slower: shares of a run are of the fastest that was measured
    // for it.
    peak_flops = std::max(peak.flops, known.peak_flops);
    if (peak.matrix_units && peak_flops > 0.0)
        run.context.message(fmt::format("100% of peak is {:.0f} TFLOP/s, that of the matrix units in {}",
                                        peak_flops / 1e12, program::storage_name(precision)));
    return {};
}

Result<std::unique_ptr<data::Batcher>> CompiledTraining::batches(int64_t from_step, int64_t rows) const {
    const MicroRange micro = strategy->micro();
    data::BatcherOptions options;
    options.threads = run.context.events.own_threads ? 1 : 0;
    options.micro_steps = micro.count;
    options.first_micro_step = micro.first;
    options.first_step = static_cast<uint64_t>(from_step);
    // A finished run has no next step, but what measures it needs a batch.
    options.end_step =
        static_cast<uint64_t>(source->end(from_step, std::max(run.recipe.train.max_steps, from_step + 1)));
    return data::Batcher::start(options, [this, rows](data::Batch& batch) { return make_batch(batch, rows); });
}

Status CompiledTraining::make_batch(data::Batch& batch, int64_t rows) const {
    const TrainSection& s = run.recipe.train;
    const auto step = static_cast<uint64_t>(strategy->data_step(static_cast<int64_t>(batch.step)));
    const uint64_t first = data::WindowOrder::first_number(
        step, batch.micro_step, static_cast<uint64_t>(s.gradient_accumulation_steps), static_cast<uint64_t>(rows));
    std::vector<batch::DrawnExample> examples;
    int64_t needed = programs.has_lengths() ? 1 : s.context_length;
    for (int64_t row = 0; row < rows; ++row)
        for (batch::DrawnExample& drawn : source->draw(first + static_cast<uint64_t>(row))) {
            drawn.row = row;
            batch.examples.push_back(drawn.example.index);
            if (programs.has_lengths())
                needed = std::max(needed, batch::example_length(*training.composition, drawn.example));
            examples.push_back(std::move(drawn));
        }
    batch.rows = rows;
    batch.length = programs.fitting(needed);
    HK_TRY(source->make_fields(examples, rows, batch.length, batch.fields, batch.step));
    batch.label_tokens = label_tokens(batch.fields);
    if (rows == s.per_device_train_batch_size) { // otherwise it is measured, not trained with
        HK_ASSIGN(batch.loss_counts, loss_counts(training.graph(batch.length), batch.fields));
    }
    return {};
}

Result<std::optional<std::vector<data::Batch>>>
CompiledTraining::next_micro_batches(data::Batcher& batcher, int64_t step, std::vector<data::Batch> ready) const {
    std::vector<data::Batch> micro = std::move(ready);
    const std::size_t count = strategy->micro().count;
    TrainerEvents events = run.context.events;
    if (!strategy->may_stop(step)) events.stop = {}; // the other islands are in the middle of their steps
    while (micro.size() < count) {
        if (!wait_for_batch(batcher, events, maker_)) return std::optional<std::vector<data::Batch>>();
        HK_ASSIGN(std::optional<data::Batch> batch, batcher.next());
        if (!batch) return internal_error("the batches ended before the steps");
        micro.push_back(std::move(*batch));
    }
    return std::optional(std::move(micro));
}

void CompiledTraining::take_ready_batches(data::Batcher& batcher, std::vector<data::Batch>& micro) const {
    while (micro.size() < strategy->micro().count && batcher.wait(std::chrono::milliseconds(0))) {
        Result<std::optional<data::Batch>> batch = batcher.next();
        if (!batch.ok() || !batch.value()) return; // the last step, or an error, which every later call returns
        micro.push_back(std::move(*batch.value()));
    }
}

Status CompiledTraining::set_features(program::Program& program, const data::Batch& batch) const {
    return features_.set(program, batch.examples);
}

Status CompiledTraining::prepare_step(int64_t step) {
    const TrainSection& s = run.recipe.train;
    const std::size_t turn = training.alternation.turn_of(step);
    programs.use_turn(turn);
    strategy->use(optimizers.of_turn(turn));
    const TrainerEvents& events = run.context.events;
    HK_TRY(scalars.begin_step(step, s.max_steps, events.scalars ? events.scalars() : StepScalars::Values()));
    return features_.prepare({training.frozen_layers, runtime, *store, *training.composition, run.data.train(),
                              s.per_device_train_batch_size, s.context_length, static_cast<uint64_t>(s.seed),
                              run.context.ranks, [this](const std::string& text) { run.context.message(text); }});
}

double CompiledTraining::flops(const std::vector<data::Batch>& micro) const {
    double flops = 0.0;
    for (const data::Batch& batch : micro) flops += programs.at(batch.length).flops();
    return flops;
}

Result<std::string> CompiledTraining::describe_non_finite(bool gradients) {
    const auto search = [&](program::StoreArena arena, const auto& names) -> Result<std::string> {
        for (const std::string& name : names) {
            HK_ASSIGN(const ResourceArray<float> values, store->download(name, arena));
            model::TensorView tensor;
            tensor.name = name;
            tensor.dims = store->find(name)->shape.vector();
            tensor.bytes = std::as_bytes(std::span(values));
            if (const Status finite = model::check_finite(tensor); !finite.ok()) return finite.message();
        }
        return std::string();
    };
    std::vector<std::string> parameters;
    for (const program::ParameterEntry& entry : store->table()) parameters.push_back(entry.name);
    HK_ASSIGN(std::string found, search(program::StoreArena::parameters, parameters));
    if (!found.empty()) return "parameter " + found;
    if (!gradients) return std::string();
    HK_ASSIGN(found, search(program::StoreArena::gradients, programs.longest().gradient_names()));
    return found.empty() ? found : "gradient of " + found;
}

Status CompiledTraining::rehearse() {
    Status ran;
    programs.for_each([&](int64_t length, program::Program& program) {
        if (!ran.ok() || &program == &programs.longest()) return; // a step has run that one
        const Result<std::vector<plugin::BatchField>> fields =
            training.composition->training_fields(run.recipe.train.per_device_train_batch_size, length);
        ran = fields.ok() ? run_over_zeros(program, fields.value()) : fields.status();
    });
    HK_TRY(ran);
    HK_TRY(optimizers.rehearse());
    HK_TRY(average.rehearse());
    return validation->rehearse();
}

std::vector<std::string> CompiledTraining::kernel_choices() const {
    std::vector<std::string> all = validation->kernel_choices();
    programs.for_each([&](int64_t, program::Program& program) {
        const std::vector<std::string> more = program.kernel_choices();
        all.insert(all.end(), more.begin(), more.end());
    });
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
}

KernelRecord CompiledTraining::kernels() const { return {runtime.tuning().identity(), kernel_choices(), peak_flops}; }

} // namespace hekla::train
