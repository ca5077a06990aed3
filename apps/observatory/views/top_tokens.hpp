// The likeliest tokens of rows of logits, found on the device: a few numbers a row come back, never the logits.
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
        Token tokens[kCount]; // the likeliest first
        uint32_t unused;
        float entropy; // bits
    };
    explicit TopTokens(Device& device);

    // `logits`: float [..., rows, vocabulary] each, of which the last two count. Recorded behind what makes them.
    void record(VkCommandBuffer commands, std::span<const hk_tensor> logits);
    // Of the tensor and its row, as soon as what was recorded has been executed.
    const Row& row(std::size_t tensor, std::size_t row) const { return rows_.as<Row>()[tensor * each_ + row]; }

private:
    Device& device_;
    Pipeline pipeline_;
    Buffer rows_;
    std::size_t each_ = 0; // rows of a tensor
};

} // namespace observatory
