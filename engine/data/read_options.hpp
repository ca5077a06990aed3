// Options of all readers of data: limits on compressed files, and a stop callback.
#pragma once

#include "base/stop_poll.hpp"

#include <cstdint>

namespace hekla::data {

// A small compressed file can contain any amount of text.
struct DecompressionLimits {
    uint64_t max_bytes = uint64_t{1} << 36; // of text per file
    double max_ratio = 250.0;               // of text to compressed bytes, checked after kUncheckedBytes of text
};
inline constexpr uint64_t kUncheckedBytes = uint64_t{16} << 20;

struct ReadOptions {
    DecompressionLimits decompression = {};
    StopPoll stop = {};
};

} // namespace hekla::data
