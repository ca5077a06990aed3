#include "train/optimizer.hpp"

#include "program/lower_optimizer.hpp"

#include <algorithm>
#include <cstring>

namespace hekla::train {

struct Optimizer::State {
    program::ParameterStore* store = nullptr;
    std::unique_ptr<program::Program> program;
};

Optimizer::Optimizer() : state_(std::make_unique<State>()) {}
Optimizer::~Optimizer() = default;

std::vector<std::string> Optimizer::states() { return {program::kOptimizerState}; }

Result<std::unique_ptr<Optimizer>> Optimizer::create(program::Runtime& runtime, program::ParameterStore& store,
                                                     const TrainSection& s, const std::vector<std::string>& reached,
                                                     const std::vector<std::string>& no_decay) {
    program::OptimizerPlan plan;
    plan.kind = s.optim == "sgd" ? program::OptimizerKind::sgd : program::OptimizerKind::adamw;
    plan.beta1 = static_cast<float>(s.adam_beta1);
    plan.beta2 = static_cast<float>(s.adam_beta2);
    plan.epsilon = static_cast<float>(s.adam_epsilon);
    plan.momentum = static_cast<float>(s.momentum);
    plan.max_norm = static_cast<float>(s.max_grad_norm);
    plan.groups = {{1.0f, static_cast<float>(s.weight_decay)}, {1.0f, 0.0f}};
    plan.loss_state = kLossState;
    const auto in = [](const std::vector<std::string>& names, const std::string& name) {
        return std::ranges::find(names, name) != names.end();
    };
    for (const program::ParameterEntry& entry : store.table()) {
        const bool decays = entry.shape.rank() >= 2 && !in(no_decay, entry.name);
        plan.group_of.push_back(in(reached, entry.name) ? (decays ? 0 : 1) : -1);
    }
    HK_ASSIGN(program::Lowering lowering,
              program::lower_optimizer(plan, store.table(), store.elements(), runtime.limits()));
    std::unique_ptr<Optimizer> optimizer(new Optimizer());
    optimizer->state_->store = &store;
    HK_ASSIGN(optimizer->state_->program, program::Program::compile(runtime, std::move(lowering), store));
    return optimizer;
}

Result<StepOutcome> Optimizer::step(double learning_rate) {
    HK_TRY(state_->program->set_scalar(program::kLearningRate, static_cast<float>(learning_rate)));
    HK_TRY(state_->program->run());
    HK_ASSIGN(const std::vector<std::byte> bytes, state_->store->download_state(program::kOptimizerState));
    program::OptimizerState device;
    if (bytes.size() < sizeof device) return internal_error("the optimizer's state is shorter than its struct");
    std::memcpy(&device, bytes.data(), sizeof device);
    return StepOutcome{static_cast<double>(device.norm), device.skip != 0, device.skipped_in_row, device.applied};
}

} // namespace hekla::train
