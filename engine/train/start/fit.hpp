// Checks whether a training fits the device's memory before anything is allocated, and finds what would fit.
#pragma once

#include "graph/passes/recompute.hpp"
#include "program/parameter_store.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

namespace hekla::plugin {
class Composition;
}
namespace hekla::program {
class Runtime;
}

namespace hekla::train {

// Bytes on the device.
struct MemoryNeed {
    uint64_t lasting = 0;       // parameters, gradients, moments, averages
    uint64_t largest = 0;       // the largest of those, in a single allocation
    uint64_t a_program = 0;     // activations, constants, inputs of one step
    int64_t parameters = 0;     // numbers, not bytes
    bool blocks_suffice = true; // no activation is larger than one allocation
    uint64_t total() const { return lasting + a_program; }
};

struct MemoryRoom {
    uint64_t free = 0;        // bytes that can still be allocated, as the driver reports them if it does
    uint64_t allocation = 0;  // largest buffer, in bytes
    uint64_t slack = 0;       // free bytes reserved for staging, the optimizer's tables and pipelines
    uint64_t cap = 0;         // the host's memory cap if it limits `free`, otherwise 0
    std::string text() const; // "12 MiB are free", for messages
};

MemoryRoom memory_room(const program::Runtime& runtime);

// The settings of a run that determine its memory.
struct FitOptions {
    program::Storage precision = program::Storage::f32;
    program::Moments moments = program::kAdamMoments;
    bool averages = false;                       // also keep a moving average of the weights
    std::set<std::string, std::less<>> frozen{}; // parameters without gradient, moments and average
    graph::Recompute recompute{};
    program::Storage frozen_storage = program::Storage::f32; // of matrices among `frozen`
    uint64_t states = 0;                                     // bytes that optimizers keep besides moments
};

// Computes the memory for training `composition` with `batch` examples of `length`, without using the device: lowers
// and places the step's graph.
Result<MemoryNeed> memory_need(const plugin::Composition& composition, const program::Runtime& runtime, int64_t batch,
                               int64_t length, const FitOptions& options = {});

// Returns the largest micro-batch that divides `whole`, the examples of a step, and fits; nothing if one example does
// not fit.
Result<std::optional<int64_t>> largest_fitting_batch(const plugin::Composition& composition,
                                                     const program::Runtime& runtime, int64_t whole, int64_t length,
                                                     const FitOptions& options = {});

// Checks whether the training fits. out_of_memory contains the memory needed, the memory available, and the largest
// batch or number of parameters that would fit.
Status check_fits(const plugin::Composition& composition, const program::Runtime& runtime, int64_t batch,
                  int64_t length, const FitOptions& options = {});

} // namespace hekla::train
