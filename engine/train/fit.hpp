// Whether a training fits into the device's memory, computed before anything of it is allocated; where it does not,
// what would.
#pragma once

#include "plugin/compose.hpp"
#include "program/program.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

namespace hekla::train {

// Bytes on the device.
struct MemoryNeed {
    uint64_t lasting = 0;       // parameters, gradients, moments, averages
    uint64_t largest = 0;       // the largest of those: one allocation
    uint64_t a_program = 0;     // activations, constants, inputs of one step
    int64_t parameters = 0;     // numbers, not bytes
    bool blocks_suffice = true; // no activation is larger than one allocation
    uint64_t total() const { return lasting + a_program; }
};

struct MemoryRoom {
    uint64_t free = 0;        // what may still be allocated, by the driver's count where it has one
    uint64_t allocation = 0;  // the most that one buffer may be
    uint64_t slack = 0;       // of what is free, kept for staging, the optimizer's tables, pipelines
    uint64_t cap = 0;         // of the host's, where that is what limits `free`; else 0
    std::string text() const; // "12 MiB are free", for messages
};

MemoryRoom memory_room(const program::Runtime& runtime);

// Of how a run trains, what decides about its memory.
struct FitOptions {
    program::Storage precision = program::Storage::f32;
    bool averages = false;                       // an average of the weights is kept beside them
    std::set<std::string, std::less<>> frozen{}; // parameters without gradient, moments and average
};

// What training `composition` with batches of `batch` examples of `length` takes: the step's graph lowered and placed,
// without touching the device.
Result<MemoryNeed> memory_need(const plugin::Composition& composition, const program::Runtime& runtime, int64_t batch,
                               int64_t length, const FitOptions& options = {});

// The largest micro-batch that divides `whole`, the examples of a step, and whose step fits; nothing where not even one
// example does.
Result<std::optional<int64_t>> largest_fitting_batch(const plugin::Composition& composition,
                                                     const program::Runtime& runtime, int64_t whole, int64_t length,
                                                     const FitOptions& options = {});

// out_of_memory says what is needed, what there is, and the largest batch, or else the number of parameters, that would
// fit.
Status check_fits(const plugin::Composition& composition, const program::Runtime& runtime, int64_t batch,
                  int64_t length, const FitOptions& options = {});

} // namespace hekla::train
