#include "program/speed.hpp"

#include <algorithm>

namespace hekla::program {

// About half of what a compute unit of 64 lanes or a multiprocessor of 128 can do, and the bandwidth of common memory
// per unit.
Speed speed_of(const Limits& limits) {
    return limits.cpu ? Speed{2e10, 5e9} : Speed{1e11 * limits.cores, 1e10 * limits.cores};
}

double submit_seconds(bool cpu, bool display) { return cpu ? 0 : display ? 0.01 : 0.1; }

double segment_seconds(double budget) { return budget > 0 ? budget : 0.002; }

std::vector<std::size_t> segments_of(std::span<const double> slices, double longest) {
    std::vector<std::size_t> first{0};
    double sum = 0;
    for (std::size_t i = 0; i < slices.size(); ++i) {
        if (sum > 0 && sum + slices[i] > longest) {
            first.push_back(i);
            sum = 0;
        }
        sum += slices[i];
    }
    return first;
}

double seconds_of(double flops, double bytes, const Speed& speed, double at_least) {
    return std::max({at_least, flops / speed.flops, bytes / speed.bytes});
}

uint64_t parts_of(uint64_t groups, double seconds, double budget) {
    if (budget <= 0) return 1;
    const auto parts = static_cast<uint64_t>(std::clamp(seconds / budget, 1.0, 1024.0));
    return std::clamp<uint64_t>(parts, 1, std::max<uint64_t>(1, groups));
}

} // namespace hekla::program
