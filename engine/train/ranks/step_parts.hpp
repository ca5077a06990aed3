// How a step is divided among ranks.
#pragma once

#include <cstdint>
#include <vector>

namespace hekla::train {

struct StepParts {
    uint32_t parts = 1;
    uint32_t micro_steps = 1;          // of a step on all ranks; a multiple of `parts`
    std::vector<uint32_t> shares = {}; // parts by rank; empty: equal
    bool half = false;                 // gradients are sent as bfloat16
};

// Micro-batches of a step.
struct MicroRange {
    uint32_t first = 0;
    uint32_t count = 0;
};

} // namespace hekla::train
