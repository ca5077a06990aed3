// The most probable tokens for rows of logits, computed on the device. Only a few numbers per row are read back.
#pragma once

#include "models/passes.hpp"
#include "vulkan/buffer.hpp"
#include "vulkan/pipeline.hpp"

#include <span>

namespace observatory {

class TopTokens {
public:
    static constexpr uint32_t kCount = 10;
    struct Token {
        uint32_t id;
        float probability;
    };
    struct Row {
        Token tokens[kCount]; // the most probable first
        uint32_t unused;
        float entropy; // bits
    };
    explicit TopTokens(Device& device);

    // `logits`: float [..., rows, vocabulary] each, whose last two dimensions are used. Record it after the commands
    // that compute them.
    void record(VkCommandBuffer commands, std::span<const hk_tensor> logits);
    // Returns the result for a row of a tensor; valid once the recorded commands have completed.
    const Row& row(std::size_t tensor, std::size_t row) const { return rows_.as<Row>()[tensor * each_ + row]; }

private:
    Device& device_;
    Pipeline pipeline_;
    Buffer rows_;
    std::size_t each_ = 0; // rows per tensor
};

} // namespace observatory
