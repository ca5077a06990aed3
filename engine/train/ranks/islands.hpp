// DiLoCo (Douillard and others 2023): each rank, an island, trains alone for some steps; then the mean of what the
// islands have changed is the gradient of an outer step, SGD with Nesterov momentum, which gives all of them the same
// parameters again. For slow links: bytes are exchanged once in `inner_steps` steps.
//
// All ranks call the functions together.
#pragma once

#include "exchange/communicator.hpp"
#include "program/parameter_store.hpp"
#include "program/shards.hpp"

#include <span>
#include <vector>

namespace hekla::train {

class Islands {
public:
    struct Options {
        double learning_rate = 0.7; // of outer steps
        double momentum = 0.9;
        bool half = false; // changes are sent as float16
        uint64_t bucket_bytes = uint64_t{64} << 20;
    };
    // The arguments must outlive this, except the last.
    Islands(program::ParameterStore& store, exchange::Communicator& ranks, const Options& options);

    // Makes parameters and momentum of all islands those of rank 0. The next outer step counts from them.
    Status synchronize();
    // Takes an outer step. Its result does not depend on anything but the parameters of the islands, in their order.
    Status step();

    // The outer momentum of a parameter, the same on all ranks.
    std::span<float> momentum(const program::ParameterEntry& entry);
    // Bytes exchanged, and seconds waited, in the last outer step.
    exchange::Traffic last_traffic() const;

private:
    Status exchange_changes(const program::Shards::Bucket& bucket, std::vector<float>& changes);

    program::ParameterStore& store_;
    exchange::Communicator& ranks_;
    Options options_;
    program::Shards shards_;
    std::vector<float> before_; // parameters after the last outer step
    std::vector<float> momentum_;
    exchange::Traffic counted_;
};

} // namespace hekla::train
