// Steps that several ranks take together. The micro-batches of a step form `parts` groups. Each rank computes the
// gradients of some parts; the gradients of all parts are added in the order of exchange/tree_sum.hpp, each element by
// the rank that owns it, which also updates it and sends the new value to the others. So a step gives the same bits on
// any number of ranks.
//
// All ranks call the functions of the same name together.
#pragma once

#include "exchange/communicator.hpp"
#include "exchange/tree_sum.hpp"
#include "program/gradient_reader.hpp"
#include "program/parameter_store.hpp"
#include "train/ranks/step_parts.hpp"
#include "train/step/step_runner.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace hekla::train {

class ShardedStep {
public:
    // The store was created with StoreOptions::shard. All arguments must outlive this, except the last two.
    static Result<std::unique_ptr<ShardedStep>> create(const graph::Graph& described, program::Runtime& runtime,
                                                       program::ParameterStore& store, Optimizer& optimizer,
                                                       exchange::Communicator& ranks, StepRunnerOptions runner,
                                                       const StepParts& options);

    // Submits the first micro-batches of a step. own: the micro-batches of this rank. end() must follow.
    Status begin(const std::vector<data::Batch>& own, int64_t step, double learning_rate);
    // Waits for the step: its loss, which is that of all ranks, and what was decided. After an error the other ranks
    // are told that this one ends, and do not use its memory any more.
    Result<TakenStep> end();

    // Returns the micro-batches of a step that this rank computes.
    MicroRange micro() const;
    // Gives each rank as many parts as makes a step fastest, by the times of the steps since the last call. Returns the
    // new shares, or nothing if they stay.
    std::vector<uint32_t> balance();
    const std::vector<double>& seconds_per_part() const { return seconds_of_part_; } // by rank; of balance()

    // internal, with its name, if a rank has other parameters than rank 0.
    Status check_parameters();
    // Makes the trained parameters and the optimizer's states of all ranks those of rank 0.
    Status synchronize();
    // Calls `use` on all ranks with the trained parameters of rank 0, after which each has its own again.
    Status with_parameters_of_rank_0(const std::function<Status()>& use);
    // Returns a moment of a parameter from the ranks that own it: all of it on rank 0, nothing on others.
    Result<ResourceArray<float>> gather(const program::ParameterEntry& entry, program::StoreArena arena);
    // Stores a moment that rank 0 has in the ranks that own it. values: on rank 0.
    Status scatter(const program::ParameterEntry& entry, std::span<const float> values, program::StoreArena arena);

private:
    ShardedStep(const graph::Graph& described, program::ParameterStore& store, Optimizer& optimizer,
                exchange::Communicator& ranks, StepRunnerOptions runner, const StepParts& options);
    Result<TakenStep> take();
    Status submit(std::size_t index);
    Status read_down_to(std::size_t pending); // micro-batches, oldest first
    Status run_part(uint32_t part);
    // An exchange of the gradients or parameters of a bucket that has begun, and its memory.
    struct Pending {
        const program::Shards::Bucket* bucket = nullptr;
        uint64_t number = 0;
        std::vector<ResourceArray<float>> sent, received; // by rank
        std::vector<std::vector<uint16_t>> sent_half, received_half;
    };
    Result<Pending> begin_bucket(const program::Shards::Bucket& bucket);
    Status end_bucket(Pending& pending);
    Result<Pending> begin_sharing(const program::Shards::Bucket& bucket);
    Status end_sharing(Pending& pending);
    Status share_parameters();
    Status send_parameters_of_rank_0();
    Result<std::vector<float>> all_sums();
    void set_shares(std::span<const uint32_t> shares); // empty: equal
    uint32_t micro_of_part() const { return options_.micro_steps / options_.parts; }
    std::span<float> elements_in(std::span<float> all, const program::ElementRange& range) const {
        return store_.shards()->in(all, range);
    }

    const graph::Graph& described_;
    program::ParameterStore& store_;
    Optimizer& optimizer_;
    exchange::Communicator& ranks_;
    MicroBatchRunner runner_;
    std::unique_ptr<program::GradientReader> reader_; // of buckets, the last one first; null for one rank
    StepParts options_;
    std::vector<exchange::PartRange> parts_; // by rank
    std::optional<exchange::PartSums> sums_;
    // Of the step that was begun:
    const std::vector<data::Batch>* own_ = nullptr;
    int64_t step_ = 0;
    std::size_t submitted_ = 0;
    std::chrono::steady_clock::time_point started_;
    std::vector<double> counts_;   // by loss, of all ranks
    std::vector<double> numbers_;  // of own micro-batches, for LossSum
    StepTokens tokens_;            // of all ranks
    std::vector<uint64_t> values_; // of the last micro-batch: when the buckets have their gradients
    std::vector<Pending> pending_;
    // Of the steps since balance(), by rank: seconds in which it computed its parts, and how many parts.
    std::vector<double> busy_, computed_, seconds_of_part_;
    exchange::Traffic before_;
};

// Returns shares of `parts` parts, at least one for each rank, that make the slowest rank fastest.
std::vector<uint32_t> balanced_shares(uint32_t parts, std::span<const double> seconds_per_part);

} // namespace hekla::train
