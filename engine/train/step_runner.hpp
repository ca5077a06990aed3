// Runs steps: each micro-batch of a step through its program, the optimizer submitted with the last, one wait at the
// end. Between begin() and end() the device computes and the host is free, for example to prepare the next step.
#pragma once

#include "data/batcher.hpp"
#include "graph/graph.hpp"
#include "program/program.hpp"
#include "train/optimizer.hpp"

#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace hekla::train {

// The loss of one step or batch, and its parts.
struct StepLoss {
    double total = 0.0;                                  // each loss times its weight, summed
    std::vector<std::pair<std::string, double>> losses;  // each before its weight; empty if there is one
    std::vector<std::pair<std::string, double>> metrics; // those that the objective reports in training
};

struct TakenStep {
    StepLoss loss;
    StepOutcome outcome;
};

struct StepRunnerOptions {
    uint64_t seed = 0;
    int64_t rows = 0; // of a micro-batch
    // Returns the program for rows of this many tokens.
    std::function<program::Program&(int64_t length)> program_of;
    // Sets the inputs of a program that are not fields of the batch; may be empty.
    std::function<Status(program::Program& program, const data::Batch& batch)> set_inputs;
};

class StepRunner {
public:
    // `described` and `optimizer` must outlive this.
    StepRunner(const graph::Graph& described, Optimizer& optimizer, StepRunnerOptions options)
        : described_(described), optimizer_(optimizer), options_(std::move(options)) {}

    // Submits forward and backward of a step; the gradients are left in the store. Returns while at most two
    // micro-batches are pending. `step` is of applied and skipped steps before it. end_gradients() must follow.
    Status begin_gradients(const std::vector<data::Batch>& micro, int64_t step);
    // The same, and submits the update with the last micro-batch; end_update() must follow.
    Status begin_update(const std::vector<data::Batch>& micro, int64_t step, double learning_rate);
    // Waits for the step that was begun.
    Result<StepLoss> end_gradients();
    Result<TakenStep> end_update();

private:
    Status begin(const std::vector<data::Batch>& micro, int64_t step, program::Program* after);
    Status set_loss_scales(const std::vector<data::Batch>& micro);
    Status read_oldest();

    const graph::Graph& described_;
    Optimizer& optimizer_;
    StepRunnerOptions options_;
    // Of the step that was begun:
    double scale_ = 1.0;
    std::deque<program::Program*> pending_; // submitted, not read: at most two
    double total_ = 0.0;
    std::vector<double> counts_, sums_;              // by loss; sums if there are several losses
    std::vector<std::pair<double, double>> metrics_; // sum, count
};

// Sets the fields of a batch that the program reads.
Status set_fields(program::Program& program, const data::Batch& batch);

} // namespace hekla::train
