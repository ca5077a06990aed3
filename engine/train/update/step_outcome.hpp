// What the optimizer did in a step.
#pragma once

#include <cstdint>

namespace hekla::train {

// The result of a step, read from the device.
struct StepOutcome {
    double gradient_norm = 0.0; // before clipping
    bool skipped = false;       // loss or norm was not finite: no parameter changed
    uint32_t skipped_in_row = 0;
    uint32_t applied = 0;         // updates so far
    bool scale_too_large = false; // skipped because of the loss scale, which is halved for the next step
};

} // namespace hekla::train
