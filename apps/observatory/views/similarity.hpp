// How much the rows of a table are like one of them: cosines, found on the device.
#pragma once

#include "models/passes.hpp"
#include "vulkan/buffer.hpp"
#include "vulkan/pipeline.hpp"

#include <vector>

namespace observatory {

class Likeness {
public:
    struct Neighbour {
        uint32_t row;
        float cosine;
    };
    explicit Likeness(Device& device);
    void record(VkCommandBuffer commands, const hk_tensor& table, uint32_t row);
    // The rows most like it, without itself, as soon as what was recorded has been executed.
    std::vector<Neighbour> nearest(std::size_t count) const;

private:
    Device& device_;
    Pipeline pipeline_;
    Buffer cosines_;
    uint32_t rows_ = 0, row_ = 0;
};

} // namespace observatory
