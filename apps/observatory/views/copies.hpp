// Small tensors, copied to the host.
#pragma once

#include "models/passes.hpp"
#include "vulkan/buffer.hpp"
#include "vulkan/pipeline.hpp"

#include <span>
#include <vector>

namespace observatory {

class Copies {
public:
    explicit Copies(Device& device);
    // Copies float tensors. Record it after the commands that compute them, and not while a frame that has recorded it
    // before is executed.
    void record(VkCommandBuffer commands, std::span<const hk_tensor> tensors);
    // Returns the elements of a tensor; valid once the recorded commands have completed.
    std::span<const float> values(std::size_t tensor) const {
        return {values_.as<float>() + begins_[tensor], begins_[tensor + 1] - begins_[tensor]};
    }

private:
    Device& device_;
    Pipeline pipeline_;
    Buffer values_;
    std::vector<std::size_t> begins_; // of each tensor, and the end
};

} // namespace observatory
