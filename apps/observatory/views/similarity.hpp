// Cosine similarity of one row of a table to all rows, computed on the device.
#pragma once

#include "models/passes.hpp"
#include "vulkan/buffer.hpp"
#include "vulkan/pipeline.hpp"

#include <vector>

namespace observatory {

class Likeness {
public:
    struct Neighbor {
        uint32_t row;
        float cosine;
    };
    explicit Likeness(Device& device);
    void record(VkCommandBuffer commands, const hk_tensor& table, uint32_t row);
    // Returns the most similar rows, without the row itself; valid once the recorded commands have completed.
    std::vector<Neighbor> nearest(std::size_t count) const;

private:
    Device& device_;
    Pipeline pipeline_;
    Buffer cosines_;
    uint32_t rows_ = 0, row_ = 0;
};

} // namespace observatory
