// Estimates of a composed model: memory and kernels of a training step and of a generated token. Nothing is allocated.
#pragma once

#include "base/status.hpp"
#include "program/lowering/view.hpp"

#include <cstdint>
#include <set>
#include <string>

namespace hekla::generate {
struct DecodeBatch;
}
namespace hekla::graph {
struct Graph;
}
namespace hekla::plugin {
class Composition;
}
namespace hekla::program {
struct Estimate;
struct Target;
} // namespace hekla::program
namespace hekla::train {
struct TrainSection;
}

namespace hekla::app {

// Returns the names of all parameters but those of adapters.
std::set<std::string, std::less<>> parameters_without_adapters(const graph::Graph& described);

struct StepEstimate {
    int64_t rows = 0, context = 0;                           // of a batch
    bool adapters_only = false;                              // the other parameters are frozen
    program::Storage precision = program::Storage::f32;      // of what matrix products read
    program::Storage frozen_weights = program::Storage::f32; // of frozen matrices
};
// Of a training step with AdamW: forward, backward and update.
Result<program::Estimate> estimate_step(const plugin::Composition& composition, const program::Target& target,
                                        const StepEstimate& step, const train::TrainSection& optimizer);
// Of one token of each row of a batch, at its longest.
Result<program::Estimate> estimate_token(const plugin::Composition& composition, const program::Target& target,
                                         program::Storage weights, const generate::DecodeBatch& batch);

} // namespace hekla::app
