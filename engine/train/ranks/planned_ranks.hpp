// The ranks that an estimate is made for.
#pragma once

#include <cstdint>

namespace hekla::train {

// Ranks that need not exist.
struct PlannedRanks {
    int32_t ranks = 0;             // 0: those of the run
    int32_t nodes = 0;             // machines with a link each; 0: as many as ranks
    double bytes_per_second = 0.0; // of a link, in each direction; 0: not known
    double latency = 0.0;          // seconds
    double micro_seconds = 0.0;    // measured: forward and backward of a micro-batch; 0: estimated
    int32_t count(int32_t of_run) const { return ranks > 0 ? ranks : of_run; }
};

} // namespace hekla::train
