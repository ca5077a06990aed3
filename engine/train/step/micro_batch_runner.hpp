// Runs micro-batches of a step through their programs, at most two at a time, and reads their losses.
#pragma once

#include "data/batcher.hpp"
#include "graph/graph.hpp"
#include "train/step/taken_step.hpp"

#include <deque>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hekla::program {
class GradientReader;
class Program;
struct Replay;
} // namespace hekla::program

namespace hekla::train {

// Adds the losses of micro-batches, in the order of the step.
class LossSum {
public:
    // `described` must outlive this.
    explicit LossSum(const graph::Graph& described);
    // Numbers of one micro-batch: its part of the loss, the sum of each loss if there are several, and sum and count of
    // each metric.
    std::size_t numbers() const { return sums_.size(); }
    void add(std::span<const double> micro);
    // counts: elements of each loss in the whole step.
    StepLoss result(std::span<const double> counts) const;

private:
    const graph::Graph* described_;
    std::size_t losses_; // in sums_, after the total
    std::vector<double> sums_;
};

// Sets the fields of a batch that the program reads.
Status set_fields(program::Program& program, const data::Batch& batch);

struct StepRunnerOptions {
    uint64_t seed = 0;
    int64_t rows = 0; // of a micro-batch
    // Returns the program for rows of this many tokens.
    std::function<program::Program&(int64_t length)> program_of;
    // Sets the inputs of a program that are not fields of the batch; may be empty.
    std::function<Status(program::Program& program, const data::Batch& batch)> set_inputs;
    // Reads other outputs of a micro-batch, in the order of the step, before the next one is submitted; may be empty.
    std::function<Status(program::Program& program)> observe = {};
    std::size_t most_pending() const { return observe ? 1 : 2; }
};

// Adds the loss counts of batches, by loss. internal if a batch has those of another model.
Status add_counts(const graph::Graph& described, std::span<const data::Batch> micro, std::vector<double>& counts);

StepTokens tokens_of(std::span<const data::Batch> micro);

class MicroBatchRunner {
public:
    // `described` must outlive this.
    MicroBatchRunner(const graph::Graph& described, StepRunnerOptions options)
        : described_(described), options_(std::move(options)) {}

    // Begins a step. counts: elements of each loss in the whole step, by which each loss is divided; scale: the loss is
    // multiplied by it before it is differentiated.
    Status begin(std::span<const data::Batch> micro, std::span<const double> counts, double scale);
    // Submits a micro-batch. The caller reads the oldest one first if is_full().
    struct Submission {
        uint32_t index = 0;                         // of the micro-batch in the step, which random numbers depend on
        bool accumulate = false;                    // adds to the gradients in the store; false: replaces them
        std::span<program::Program* const> after{}; // submitted with it, in this order
    };
    Status submit(const data::Batch& batch, int64_t step, const Submission& submission);
    // The same, for gradients that are read while it runs: see Program::submit_by_range().
    Result<std::vector<uint64_t>> submit_by_range(const data::Batch& batch, int64_t step, const Submission& submission,
                                                  const program::GradientReader& reader);
    bool is_full() const { return pending_.size() >= options_.most_pending(); }
    std::size_t pending() const { return pending_.size(); }
    // Waits for the oldest pending micro-batch, and returns its numbers for LossSum::add().
    Result<std::vector<double>> read_oldest();

private:
    Result<program::Replay> prepare(const data::Batch& batch, int64_t step, const Submission& submission);
    const graph::Graph& described_;
    StepRunnerOptions options_;
    double scale_ = 1.0;
    std::deque<program::Program*> pending_; // submitted, not read
};

} // namespace hekla::train
