#include "train/run/described_training.hpp"

#include "graph/operations/buffer_update.hpp"
#include "graph/output.hpp"
#include "graph/passes/taps.hpp"
#include "plugin/composition/record.hpp"
#include "plugin/composition/text_record.hpp"
#include "plugin/instances/rollout_use.hpp"
#include "program/lowering/half.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"
#include "train/recipe/recipe_rollouts.hpp"
#include "train/rollouts/rollout_context.hpp"
#include "train/run/example_origin.hpp"
#include "train/run/prepared_run.hpp"
#include "train/run/run_mask.hpp"
#include "train/start/fit.hpp"
#include "train/start/model_spec.hpp"
#include "train/step/dropout.hpp"
#include "train/step/training_graph.hpp"

#include <fmt/format.h>

namespace hekla::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Adds train.context_length to an error of a description that a shorter row does not have.
Status with_length(const Status& failed, const plugin::Composition& composition, const TrainSection& s) {
    for (int64_t length = s.context_length / 2; length > 0; length /= 2) {
        const Result<std::vector<plugin::BatchField>> fields =
            composition.training_fields(s.per_device_train_batch_size, length);
        if (fields.ok() && composition.check(HK_MODE_TRAIN, fields.value()).ok())
            return {failed.code(),
                    fmt::format("{}; train.context_length = {} is too long for the model: set it to that "
                                "limit or less, as {}, or take a model with more",
                                failed.message(), s.context_length, length)};
    }
    return failed;
}

} // namespace

Result<std::unique_ptr<DescribedTraining>> DescribedTraining::create(const PreparedRun& run) {
    std::unique_ptr<DescribedTraining> training(new DescribedTraining(run));
    HK_TRY(training->describe());
    HK_ASSIGN(training->mask, mask_of_run(run, training->parameters()));
    return training;
}

Status DescribedTraining::describe() {
    const Recipe& recipe = run.recipe;
    const RunContext& context = run.context;
    const TrainSection& s = recipe.train;
    HK_ASSIGN(plugin::CompositionSpec spec,
              model_spec(recipe, context.registry, *run.tokenizer, run.data.facts(), run.text_rules));
    spec.recompute = s.gradient_checkpointing;
    spec.isolate = recipe.plugins.isolate;
    HK_ASSIGN(composition, plugin::Composition::create(context.registry, spec, run.tokenizer.get(), context.log));
    if (!composition->can_collate())
        return unsupported(
            fmt::format("objective '{}' cannot make batches from text: it only measures given ones", spec.objective));
    policy = spec;
    HK_TRY(run.origin->describe(*this));
    if (s.disable_dropout.value_or(false)) composition->freeze_body();
    HK_ASSIGN(const std::vector<plugin::BatchField> fields,
              composition->training_fields(s.per_device_train_batch_size, s.context_length));
    Result<graph::Graph> step = describe_step(fields);
    if (!step.ok()) return with_length(step.status(), *composition, s);
    graph::Graph& described = by_length[s.context_length] = step.take();
    run.origin->warn_of(*this, described);
    if (spec.adapter_rows == 0 && described.find_leaf(graph::Op::input, plugin::kAdapterRows) != graph::kNone)
        return unsupported(
            recipe.combine.how.empty()
                ? std::string("[adapter]: each row has its own adapter or task: set `names` and `route_by`, the column "
                              "that has the name of a row's")
                : fmt::format("combine.how = {}: 'fixed' lets each row choose its adapter, which the rows of training "
                              "do not; train the adapters one by one, or join them by a router",
                              recipe.combine.how));
    HK_ASSIGN(scalars, StepScalars::create(recipe.schedules, described));
    HK_ASSIGN(taps, Taps::create(recipe.tap, s.logging_steps, described));
    std::vector<std::string> names, teacher;
    for (const auto& [name, value] : described.parameters())
        (name.starts_with(plugin::kTeacher) ? teacher : names).push_back(name);
    HK_ASSIGN(body, composition->body_parameters(fields));
    HK_ASSIGN(rules, parameter_rules(recipe, names, body));
    if (!spec.adapters.empty()) {
        HK_ASSIGN(adapted, AdaptedBody::freeze(recipe, context.registry, spec, *composition, described, fields, names,
                                               body, rules));
    }
    if (rules.body_frozen) { // described in evaluation mode: a frozen body needs no dropout
        composition->freeze_body();
        HK_ASSIGN(described, describe_step(fields));
    }
    if (!rules.frozen.empty())
        context.message(fmt::format("{} of {} parameters are frozen{}", rules.frozen.size(), names.size(),
                                    rules.body_frozen ? ": the whole body" : ""));
    rules.frozen.insert(teacher.begin(), teacher.end());
    HK_TRY(describe_updates());
    if (rules.frozen.empty() && frozen_storage_of(s) != program::Storage::f32)
        return invalid_argument(
            fmt::format("train.frozen_dtype = {}: no parameter is frozen: remove the key, or freeze "
                        "parameters with train.freeze or [adapter]",
                        s.frozen_dtype));
    if (!teacher.empty())
        context.message(fmt::format("teacher {}: {} parameters, all frozen", recipe.teacher.from, teacher.size()));
    HK_TRY(cut_frozen_layers());
    HK_TRY(differentiated(s.context_length).status()); // reports what cannot be trained before data is read
    for (const int64_t length : run.row_lengths()) {
        if (length == s.context_length) continue;
        HK_ASSIGN(const std::vector<plugin::BatchField> shorter,
                  composition->training_fields(s.per_device_train_batch_size, length));
        HK_ASSIGN(by_length[length], describe_step(shorter));
    }
    return {};
}

Result<graph::Graph> DescribedTraining::describe_step(const std::vector<plugin::BatchField>& fields) const {
    HK_ASSIGN(graph::Graph step, composition->build(HK_MODE_TRAIN, fields));
    if (!run.recipe.train.disable_dropout.value_or(false) || !has_dropout(step)) return step;
    return without_dropout(step);
}

Status DescribedTraining::describe_updates() {
    const Recipe& recipe = run.recipe;
    HK_ASSIGN(updates, UpdateRules::create(recipe, run.context.registry, graph(), rules, run.context.log));
    HK_ASSIGN(alternation, Alternation::create(recipe.train, graph(), rules.frozen));
    Division::Used used;
    used.alternates = alternation.on();
    used.taps = !taps.empty();
    for (const graph::BufferUpdate& update : graph::buffer_updates(graph()))
        used.written_buffers.push_back(update.buffer);
    if (!updates.by_kernel()) used.updates = updates.summary();
    HK_TRY(run.division.check_supported(used));
    if (!updates.summary().empty()) run.context.message(updates.summary());
    return {};
}

// Where rows are the same in every epoch, the outputs of frozen layers are too, below the first one that is trained.
Status DescribedTraining::cut_frozen_layers() {
    if (composition->example_kind() != HK_EXAMPLE_ROW || composition->packs_rows() || run.row_lengths().size() > 1 ||
        !run.origin->repeats_rows() || !graph::buffer_updates(graph()).empty() || !taps.empty())
        return {};
    HK_ASSIGN(frozen_layers, FrozenLayers::cut(graph(), rules.frozen, run.recipe.train.per_device_train_batch_size,
                                               run.data.table_rows()));
    return {};
}

Result<graph::Graph> DescribedTraining::differentiated(int64_t length, const Alternation::Turn& turn) const {
    return differentiated(frozen_layers.trained_part(graph(length)), turn);
}

Result<graph::Graph> DescribedTraining::differentiated(const graph::Graph& step, const Alternation::Turn& turn) const {
    graph::Graph tapped = step;
    graph::add_tap_outputs(tapped, taps.names());
    return training_graph(tapped, rules.frozen, recompute_of(run.recipe.train), turn.losses);
}

std::vector<program::ParameterEntry> DescribedTraining::parameters() const {
    std::vector<program::ParameterEntry> table = program::parameter_table(graph());
    for (program::ParameterEntry& entry : table) entry.trained = !rules.frozen.contains(entry.name);
    return table;
}

std::vector<program::ParameterEntry> DescribedTraining::parameters_read_by(const graph::Graph& step) const {
    std::vector<program::ParameterEntry> table = parameters();
    program::keep_readable_in_16_bits(table, step);
    return table;
}

program::StoreOptions DescribedTraining::store_options() const {
    return {.gradients = true,
            .moments = updates.moments(),
            .weights = frozen_storage_of(run.recipe.train),
            .frozen = rules.frozen,
            .shard = run.division.shard(run.recipe.distributed)};
}

program::CompileOptions DescribedTraining::step_options(std::map<std::string, std::string> choices) const {
    program::CompileOptions options;
    using graph::output_name, graph::OutputKind;
    options.outputs = {graph::kLossOutput};
    for (std::size_t i = 0; graph().losses.size() > 1 && i < graph().losses.size(); ++i)
        options.outputs.push_back(output_name(OutputKind::loss_sum, i));
    for (const graph::Metric& metric : graph().metrics) {
        options.outputs.push_back(output_name(OutputKind::metric_sum, metric.name));
        options.outputs.push_back(output_name(OutputKind::metric_count, metric.name));
    }
    for (const std::string& name : taps.names()) options.outputs.push_back(output_name(OutputKind::tap, name));
    options.precision = storage_of(run.recipe.train);
    options.kernel_choices = std::move(choices);
    options.state_outputs = {{graph::kLossOutput, kLossState}}; // the optimizer checks it with the norm
    for (const graph::BufferUpdate& update : graph::buffer_updates(graph()))
        options.state_sums[update.output] = program::buffer_sum_state(update.buffer);
    options.gradients = run.recipe.train.gradient_accumulation_steps > 1 ? program::Gradients::accumulate
                                                                         : program::Gradients::overwrite;
    return options;
}

FitOptions DescribedTraining::fit_options() const {
    const TrainSection& s = run.recipe.train;
    return {storage_of(s),   updates.moments(),    s.ema_decay > 0.0,    rules.frozen,
            recompute_of(s), frozen_storage_of(s), updates.state_bytes()};
}

OptimizerRules DescribedTraining::optimizer_rules() const {
    OptimizerRules of_parameters = updates.rules(without_decay(graph()));
    of_parameters.mask = mask.or_null();
    for (const graph::BufferUpdate& update : graph::buffer_updates(graph()))
        of_parameters.buffers.push_back({update.buffer, update.shape});
    return of_parameters;
}

RolloutContext DescribedTraining::rollout_context(program::Runtime* runtime, program::ParameterStore* store) const {
    return {{run.recipe, run.context.registry, *composition, graph(), policy, *run.tokenizer, runtime, store},
            run.data,
            *rollout_use,
            run.context.events,
            run.context.log,
            run.folder,
            run.context.host_memory};
}

Result<plugin::Record> DescribedTraining::record(int32_t mode) const {
    auto& known = records_[mode];
    if (!known) {
        const TrainSection& s = run.recipe.train;
        HK_ASSIGN(const std::vector<plugin::BatchField> fields,
                  mode == HK_MODE_TRAIN ? composition->training_fields(s.per_device_train_batch_size, s.context_length)
                                        : composition->batch_fields(s.per_device_train_batch_size, s.context_length));
        HK_ASSIGN(plugin::Record made, plugin::make_record(*composition, mode, fields, mode == HK_MODE_TRAIN));
        known = std::make_shared<const plugin::Record>(std::move(made));
    }
    return *known;
}

} // namespace hekla::train
