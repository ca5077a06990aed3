// Options of all readers of data: limits on compressed files, and a stop callback.
#pragma once

#include "base/status.hpp"

#include <chrono>
#include <cstdint>
#include <functional>

namespace hekla::data {

// A small compressed file can contain any amount of text.
struct DecompressionLimits {
    uint64_t max_bytes = uint64_t{1} << 36; // of text per file
    double max_ratio = 250.0;               // of text to compressed bytes, checked after kUncheckedBytes of text
};
inline constexpr uint64_t kUncheckedBytes = uint64_t{16} << 20;

// Polls whether long work should end. Thread: one at a time.
class StopPoll {
public:
    StopPoll() = default; // never ends
    explicit StopPoll(std::function<bool()> asked) : asked_(std::move(asked)) {}

    // Returns Code::cancelled after the callback asked to stop. Cheap enough for every row, because the callback is
    // called at most every 20 milliseconds.
    Status check() const;

private:
    std::function<bool()> asked_;
    mutable std::chrono::steady_clock::time_point next_{}; // the first check always calls it
};

struct ReadOptions {
    DecompressionLimits decompression = {};
    StopPoll stop = {};
};

} // namespace hekla::data
