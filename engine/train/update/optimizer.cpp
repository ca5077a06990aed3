#include "train/update/optimizer.hpp"

#include "program/estimate.hpp"
#include "program/lowering/optimizer_state.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"
#include "train/update/update_program.hpp"
#include "train/update/weight_mask.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace hekla::train {

struct Optimizer::State {
    program::ParameterStore* store = nullptr;
    std::string name; // of the state with the counters
    bool scales = false;
    bool writes_buffers = false;
    double scale = 1.0;                // of the loss, as the device has it
    uint64_t scale_known = UINT64_MAX; // ParameterStore::state_writes() when `scale` was read
    std::unique_ptr<program::Program> program;
    std::unique_ptr<program::Program> graphs;               // after `program`, with updates by graphs
    std::unique_ptr<program::Program> norm, decide, update; // instead of `program`, with shards
    std::vector<program::Program*> programs;                // of a step without shards
    std::vector<UpdateTensor> tensors;
};

program::Storage storage_of(const TrainSection& settings) {
    return settings.bf16 ? program::Storage::bf16 : settings.fp16 ? program::Storage::f16 : program::Storage::f32;
}

program::Storage frozen_storage_of(const TrainSection& settings) {
    return settings.frozen_dtype == "bfloat16"  ? program::Storage::bf16
           : settings.frozen_dtype == "float16" ? program::Storage::f16
                                                : program::Storage::f32;
}

namespace {

Result<UpdateProgram> graphs_of(const OptimizerRules& rules, const std::vector<std::string>& reached) {
    std::vector<PlannedUpdate> updates;
    for (const PlannedUpdate& update : *rules.updates)
        if (std::ranges::find(reached, update.parameter) != reached.end()) updates.push_back(update);
    return update_program(updates, rules.state);
}

} // namespace

Optimizer::Optimizer() : state_(std::make_unique<State>()) {}
Optimizer::~Optimizer() = default;

std::vector<std::string> Optimizer::states(const TrainSection& settings, const std::string& state) {
    std::vector<std::string> names{state};
    if (settings.fp16) names.emplace_back(program::kLossScaleState);
    return names;
}

Status Optimizer::estimate(program::Estimator& estimator, const program::Lowering& step, const TrainSection& settings,
                           const OptimizerRules& rules) {
    const std::vector<program::ParameterEntry>& table = estimator.table();
    const std::vector<std::string> reached = program::parameters_reached(table, step);
    program::OptimizerPlan planned = plan(table, settings, reached, rules);
    if (rules.updates != nullptr) planned.stage = program::OptimizerStage::judge;
    HK_ASSIGN(const program::Lowering update,
              program::lower_optimizer(planned, table, estimator.chunks(), estimator.target().limits));
    HK_TRY(estimator.add(update, 1.0, &program::Estimate::optimizer));
    if (rules.updates == nullptr) return {};
    HK_ASSIGN(const UpdateProgram graphs, graphs_of(rules, reached));
    return estimator.add(graphs.graph, graphs.options, 1.0, &program::Estimate::optimizer).status();
}

program::Moments Optimizer::moments(const TrainSection& s) {
    program::Moments moments;
    moments.count = s.optim != "sgd" ? 2 : s.momentum != 0 ? 1 : 0;
    if (s.moments_dtype == "bfloat16") moments.storage = program::Storage::bf16;
    moments.in_system_memory = s.moments_memory == "system";
    return moments;
}

program::OptimizerPlan Optimizer::plan(const std::vector<program::ParameterEntry>& table, const TrainSection& s,
                                       const std::vector<std::string>& reached, const OptimizerRules& rules) {
    program::OptimizerPlan plan;
    plan.kind = s.optim == "sgd" ? program::OptimizerKind::sgd : program::OptimizerKind::adamw;
    plan.beta1 = static_cast<float>(s.adam_beta1);
    plan.beta2 = static_cast<float>(s.adam_beta2);
    plan.epsilon = static_cast<float>(s.adam_epsilon);
    plan.momentum = static_cast<float>(s.momentum);
    plan.nesterov = rules.nesterov;
    plan.max_norm = static_cast<float>(s.max_grad_norm);
    const program::Moments kept = moments(s);
    plan.moments = kept.storage;
    plan.moments_over_bus = kept.in_system_memory;
    // One group for every combination of factor and decay.
    std::map<std::pair<float, float>, int32_t> groups;
    const auto group_of = [&](double factor, double decay) {
        const auto [at, inserted] = groups.try_emplace({static_cast<float>(factor), static_cast<float>(decay)},
                                                       static_cast<int32_t>(plan.groups.size()));
        if (inserted) plan.groups.push_back({at->first.first, at->first.second});
        return at->second;
    };
    plan.loss_state = kLossState;
    plan.loss_scaling = s.fp16;
    const auto in = [](const std::vector<std::string>& names, const std::string& name) {
        return std::ranges::find(names, name) != names.end();
    };
    for (const program::ParameterEntry& entry : table) {
        const bool decays = entry.shape.rank() >= 2 && !in(rules.no_decay, entry.name);
        const auto factor = rules.factors.find(entry.name);
        plan.group_of.push_back(in(reached, entry.name) ? group_of(factor != rules.factors.end() ? factor->second : 1.0,
                                                                   decays ? s.weight_decay : 0.0)
                                                        : -1);
    }
    if (rules.mask != nullptr) plan.kept = rules.mask->by_entry(table);
    plan.buffers = rules.buffers;
    plan.state = rules.state;
    return plan;
}

Result<std::unique_ptr<Optimizer>> Optimizer::create(program::Runtime& runtime, program::ParameterStore& store,
                                                     const TrainSection& s, const std::vector<std::string>& reached,
                                                     const OptimizerRules& rules) {
    program::OptimizerPlan planned = plan(store.table(), s, reached, rules);
    planned.shards = store.shards();
    std::unique_ptr<Optimizer> optimizer(new Optimizer());
    State& state = *optimizer->state_;
    state.store = &store;
    state.name = rules.state;
    state.scales = s.fp16;
    state.writes_buffers = !rules.buffers.empty();
    const auto compile = [&](program::OptimizerStage stage, std::vector<std::string> read_states,
                             std::unique_ptr<program::Program>& to) -> Status {
        planned.stage = stage;
        HK_ASSIGN(const program::Lowering lowering,
                  program::lower_optimizer(planned, store.table(), store.chunks(), runtime.limits()));
        program::CompileOptions options;
        options.read_states = std::move(read_states);
        HK_ASSIGN(to, program::Program::compile(runtime, lowering, store, options));
        return {};
    };
    if (rules.updates != nullptr) {
        if (store.shards() != nullptr || rules.mask != nullptr)
            return unsupported("updates by graphs were asked for over several ranks or with a mask");
        HK_TRY(compile(program::OptimizerStage::judge, states(s, rules.state), state.program));
        HK_ASSIGN(UpdateProgram graphs, graphs_of(rules, reached));
        HK_ASSIGN(state.graphs, program::Program::compile(runtime, graphs.graph, store, graphs.options));
        state.tensors = std::move(graphs.states);
        state.programs = {state.program.get(), state.graphs.get()};
        HK_TRY(optimizer->reset_tensors());
        return optimizer;
    }
    if (store.shards() == nullptr) {
        HK_TRY(compile(program::OptimizerStage::all, states(s, rules.state), state.program));
        state.programs = {state.program.get()};
        return optimizer;
    }
    HK_TRY(compile(program::OptimizerStage::norm, {}, state.norm));
    HK_TRY(compile(program::OptimizerStage::decide, states(s, rules.state), state.decide));
    HK_TRY(compile(program::OptimizerStage::update, {}, state.update));
    return optimizer;
}

namespace {

Result<double> scale_in(const ResourceArray<std::byte>& bytes) {
    program::LossScale device;
    if (bytes.size() < sizeof device) return internal_error("the loss scale is shorter than its struct");
    std::memcpy(&device, bytes.data(), sizeof device);
    return static_cast<double>(device.scale == 0 ? program::kFirstLossScale : device.scale);
}

} // namespace

Result<double> Optimizer::loss_scale() const {
    State& state = *state_;
    if (state.scales && state.scale_known != state.store->state_writes()) {
        HK_ASSIGN(const ResourceArray<std::byte> bytes, state.store->download_state(program::kLossScaleState));
        HK_ASSIGN(state.scale, scale_in(bytes));
        state.scale_known = state.store->state_writes();
    }
    return state.scale;
}

Status Optimizer::rehearse() {
    program::ParameterStore& store = *state_->store;
    std::vector<std::pair<std::string, ResourceArray<std::byte>>> before;
    for (const std::string& name : {state_->name, std::string(program::kLossScaleState), std::string(kLossState)}) {
        if (!store.has_state(name)) continue;
        HK_ASSIGN(ResourceArray<std::byte> content, store.download_state(name));
        before.emplace_back(name, std::move(content));
    }
    const float loss = std::numeric_limits<float>::quiet_NaN();
    HK_TRY(store.upload_state(kLossState, std::as_bytes(std::span(&loss, 1))));
    HK_ASSIGN(const StepOutcome outcome, step(0.0));
    for (const auto& [name, content] : before) HK_TRY(store.upload_state(name, content));
    return outcome.skipped ? Status() : internal_error("the optimizer updated by a loss that is not finite");
}

std::span<program::Program* const> Optimizer::programs() const { return state_->programs; }

std::span<const UpdateTensor> Optimizer::tensors() const { return state_->tensors; }

Status Optimizer::reset_tensors() {
    for (const UpdateTensor& tensor : state_->tensors) {
        const std::vector<float> values(static_cast<std::size_t>(tensor.shape.elements()), tensor.initial);
        HK_TRY(state_->store->upload_state(tensor.state, std::as_bytes(std::span(values))));
    }
    return {};
}

Status Optimizer::set(double learning_rate, std::size_t micro_batches) {
    HK_ASSIGN(const double scale, loss_scale());
    program::Program& decides = state_->decide != nullptr ? *state_->decide : *state_->program;
    program::Program& updates = state_->update != nullptr   ? *state_->update
                                : state_->graphs != nullptr ? *state_->graphs
                                                            : *state_->program;
    HK_TRY(decides.set_scalar(program::kGradientScale, static_cast<float>(1.0 / scale)));
    if (state_->writes_buffers) {
        program::Program& writes = state_->update != nullptr ? *state_->update : *state_->program;
        HK_TRY(writes.set_scalar(program::kMicroBatchShare, 1.0f / static_cast<float>(micro_batches)));
    }
    return updates.set_scalar(program::kLearningRate, static_cast<float>(learning_rate));
}

Result<StepOutcome> Optimizer::read_outcome(program::Program& from) {
    State& state = *state_;
    HK_ASSIGN(const ResourceArray<std::byte> bytes, from.read_state(state.name));
    program::OptimizerState device;
    if (bytes.size() < sizeof device) return internal_error("the optimizer's state is shorter than its struct");
    std::memcpy(&device, bytes.data(), sizeof device);
    const StepOutcome outcome{static_cast<double>(device.norm), device.skip != 0, device.skipped_in_row, device.applied,
                              device.skip != 0 && state.scale > 1.0};
    if (state.scales) {
        HK_ASSIGN(const ResourceArray<std::byte> scale, from.read_state(program::kLossScaleState));
        HK_ASSIGN(state.scale, scale_in(scale));
    }
    return outcome;
}

Result<StepOutcome> Optimizer::outcome() { return read_outcome(*state_->program); }

Result<StepOutcome> Optimizer::step(double learning_rate) {
    HK_TRY(set(learning_rate));
    if (state_->program != nullptr) {
        for (program::Program* const program : state_->programs) HK_TRY(program->submit());
        return outcome();
    }
    HK_TRY(state_->norm->submit());
    HK_TRY(state_->decide->submit());
    HK_TRY(state_->update->submit());
    return read_outcome(*state_->decide);
}

Result<std::vector<float>> Optimizer::own_sums() {
    State& state = *state_;
    HK_TRY(state.norm->run());
    HK_ASSIGN(const ResourceArray<std::byte> bytes, state.store->download_state(program::kOptimizerSums));
    const program::Shards& shards = *state.store->shards();
    std::vector<float> all(bytes.size() / sizeof(float)), own;
    std::memcpy(all.data(), bytes.data(), all.size() * sizeof(float));
    for (const program::ElementRange& range : shards.own()) {
        const auto first = all.begin() + static_cast<std::ptrdiff_t>(shards.sum_index(range));
        own.insert(own.end(), first, first + static_cast<std::ptrdiff_t>(program::Shards::sums_of(range)));
    }
    return own;
}

Result<StepOutcome> Optimizer::decide(std::span<const float> sums, float loss) {
    program::ParameterStore& store = *state_->store;
    HK_TRY(store.upload_state(program::kOptimizerSums, std::as_bytes(sums)));
    HK_TRY(store.upload_state(kLossState, std::as_bytes(std::span(&loss, 1))));
    HK_TRY(state_->decide->submit());
    return read_outcome(*state_->decide);
}

Result<std::vector<std::byte>> Optimizer::decision() const {
    std::vector<std::byte> all;
    for (const std::string& name : {state_->name, std::string(program::kLossScaleState)}) {
        if (!state_->store->has_state(name)) continue;
        HK_ASSIGN(const ResourceArray<std::byte> bytes, state_->store->download_state(name));
        all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
}

Status Optimizer::set_decision(std::span<const std::byte> decision) {
    for (const std::string& name : {state_->name, std::string(program::kLossScaleState)}) {
        if (!state_->store->has_state(name)) continue;
        HK_ASSIGN(const uint64_t bytes, state_->store->state_bytes(name));
        if (decision.size() < bytes) return internal_error("rank 0 decided with a smaller state than this rank has");
        HK_TRY(state_->store->upload_state(name, decision.first(static_cast<std::size_t>(bytes))));
        decision = decision.subspan(static_cast<std::size_t>(bytes));
    }
    return {};
}

Status Optimizer::update_own() { return state_->update->submit(); }

} // namespace hekla::train
