// What a training by several ranks exchanges in a step, how much of the host's memory that takes, and how long it takes
// over a link: estimated before a run.
#pragma once

#include "train/ranks/planned_ranks.hpp"
#include "train/ranks/step_parts.hpp"
#include "train/recipe/recipe.hpp"

#include <cstdint>
#include <span>

namespace hekla::graph {
struct Graph;
}
namespace hekla::program {
struct StoreChunk;
}

namespace hekla::train {

struct ExchangePlan {
    int32_t ranks = 1;
    uint64_t bytes = 0;   // that rank 0 sends and receives in a step, or in an average of islands
    uint64_t memory = 0;  // of the host, of the rank with most
    double seconds = 0.0; // 0: the link is not known
    double exposed = 0.0; // of these, in which ranks wait
    uint64_t micro = 0;   // micro-batches of a step, on the rank with most
};

// micro_seconds: forward and backward of a micro-batch, which hides exchanges.
ExchangePlan plan_exchange(std::span<const program::StoreChunk> chunks, const Recipe& recipe, const StepParts& options,
                           const graph::Graph& described, const PlannedRanks& ranks, double micro_seconds);
// The same for an average of islands, once in distributed.inner_steps steps, which nothing hides.
ExchangePlan plan_averages(std::span<const program::StoreChunk> chunks, const Recipe& recipe,
                           const PlannedRanks& ranks);

} // namespace hekla::train
