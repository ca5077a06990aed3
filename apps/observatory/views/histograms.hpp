// Histograms of tensors, computed on the device from their buffers.
#pragma once

#include "models/passes.hpp"
#include "vulkan/buffer.hpp"
#include "vulkan/one_shot_commands.hpp"
#include "vulkan/pipeline.hpp"

#include <array>
#include <span>

namespace observatory {

struct Histogram {
    static constexpr std::size_t kBins = 64;
    std::array<uint32_t, kBins> counts{}; // equal bins over [-magnitude, magnitude]
    double least = 0, greatest = 0, mean = 0, deviation = 0;
    uint64_t not_finite = 0;
    double magnitude() const { return std::max(-least, greatest); }
};

// Used by one thread, which may be a session's.
class Histograms {
public:
    explicit Histograms(Device& device);
    // Returns the histograms of float tensors, in order. Submits and waits.
    std::vector<Histogram> take(std::span<const hk_tensor> tensors);

private:
    static constexpr uint32_t kGroups = 32;
    struct Extremes { // per workgroup
        float least, greatest, sum, squares;
        uint32_t wrong;
    };
    struct Result { // per tensor
        Extremes parts[kGroups];
        uint32_t counts[Histogram::kBins];
    };
    Device& device_;
    Once once_;
    Pipeline extremes_, bins_;
    Buffer results_;
};

} // namespace observatory
