// What every reader of data obeys: limits on compressed files, and a request to stop.
#pragma once

#include "base/status.hpp"

#include <chrono>
#include <cstdint>
#include <functional>

namespace hekla::data {

// A small compressed file can contain any amount of text.
struct DecompressionLimits {
    uint64_t max_bytes = uint64_t{1} << 36; // of text in one file
    double max_ratio = 250.0; // of text to compressed bytes, once a file has given kUncheckedBytes of text
};
inline constexpr uint64_t kUncheckedBytes = uint64_t{16} << 20;

// Asks a caller whether long work should end. Thread: one at a time.
class StopPoll {
public:
    StopPoll() = default; // never ends
    explicit StopPoll(std::function<bool()> asked) : asked_(std::move(asked)) {}

    // Code::cancelled after the caller asked to stop. Cheap enough for every row: the caller is asked at most every 20
    // milliseconds.
    Status check() const;

private:
    std::function<bool()> asked_;
    mutable std::chrono::steady_clock::time_point next_{}; // the first call always asks
};

struct ReadOptions {
    DecompressionLimits decompression = {};
    StopPoll stop = {};
};

} // namespace hekla::data
