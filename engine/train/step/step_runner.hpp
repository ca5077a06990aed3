// Runs steps on one device: each micro-batch of a step through its program, the optimizer submitted with the last, one
// wait at the end. Between begin() and end() the device computes and the host is free, for example to prepare the next
// step.
#pragma once

#include "train/step/micro_batch_runner.hpp"
#include "train/step/taken_step.hpp"

#include <optional>
#include <vector>

namespace hekla::train {

class Optimizer;

class StepRunner {
public:
    // `described` and `optimizer` must outlive this.
    StepRunner(const graph::Graph& described, Optimizer& optimizer, StepRunnerOptions options)
        : described_(described), optimizers_{&optimizer}, runner_(described, std::move(options)) {}

    // Sets the optimizers of the following steps, one or more, each for other parameters. They must outlive this.
    void use(std::vector<Optimizer*> optimizers) { optimizers_ = std::move(optimizers); }

    // Submits forward and backward of a step; the gradients are left in the store. Returns while at most two
    // micro-batches are pending. `step` is of applied and skipped steps before it. end_gradients() must follow.
    Status begin_gradients(const std::vector<data::Batch>& micro, int64_t step);
    // The same, and submits the update with the last micro-batch; end_update() must follow.
    Status begin_update(const std::vector<data::Batch>& micro, int64_t step, double learning_rate);
    // Waits for the step that was begun.
    Result<StepLoss> end_gradients();
    Result<TakenStep> end_update();

private:
    Status begin(const std::vector<data::Batch>& micro, int64_t step, std::span<program::Program* const> after);
    Status read_oldest();

    const graph::Graph& described_;
    std::vector<Optimizer*> optimizers_;
    MicroBatchRunner runner_;
    // Of the step that was begun:
    std::vector<double> counts_; // by loss
    StepTokens tokens_;
    std::optional<LossSum> sum_;
};

} // namespace hekla::train
