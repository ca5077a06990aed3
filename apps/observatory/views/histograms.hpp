// How a model's numbers are spread: counted on the device, where they lie.
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
    std::array<uint32_t, kBins> counts{}; // of equal parts of [-magnitude, magnitude]
    double least = 0, greatest = 0, mean = 0, deviation = 0;
    uint64_t not_finite = 0;
    double magnitude() const { return std::max(-least, greatest); }
};

// Owned by one thread, which may be a session's.
class Histograms {
public:
    explicit Histograms(Device& device);
    // Of float tensors, in their order. Submits and waits.
    std::vector<Histogram> take(std::span<const hk_tensor> tensors);

private:
    static constexpr uint32_t kGroups = 32;
    struct Extremes { // of one group
        float least, greatest, sum, squares;
        uint32_t wrong;
    };
    struct Result { // of one tensor
        Extremes parts[kGroups];
        uint32_t counts[Histogram::kBins];
    };
    Device& device_;
    Once once_;
    Pipeline extremes_, bins_;
    Buffer results_;
};

} // namespace observatory
