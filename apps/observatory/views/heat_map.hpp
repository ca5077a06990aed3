// Attention maps drawn from Hekla's buffers. A fragment shader reads each weight at its address, so nothing is copied.
#pragma once

#include "gui/canvas.hpp"
#include "models/passes.hpp"
#include "vulkan/pipeline.hpp"

namespace observatory {

struct HeadMap {
    VkDeviceAddress address = 0; // float [queries, keys]
    uint32_t queries = 0, keys = 0;
};

// Returns the map of one head of `attention`, [1, heads, queries, keys].
inline HeadMap head_of(const hk_tensor& attention, uint32_t head) {
    const auto queries = static_cast<uint32_t>(attention.dims[2]), keys = static_cast<uint32_t>(attention.dims[3]);
    return {address_of(attention) + uint64_t{head} * queries * keys * sizeof(float), queries, keys};
}

class HeatMap {
public:
    static constexpr uint32_t kNone = UINT32_MAX;
    HeatMap(Device& device, VkRenderPass pass);
    // row, column: the cell under the mouse, or kNone.
    void add(Canvas& canvas, ImVec2 low, ImVec2 high, const HeadMap& map, float gamma, uint32_t row = kNone,
             uint32_t column = kNone) const;

private:
    Pipeline pipeline_;
};

} // namespace observatory
