#include "views/heat_map.hpp"

#include "shaders.hpp"

namespace observatory {

HeatMap::HeatMap(Device& device, VkRenderPass pass)
    : pipeline_(device, shaders::quad_vert, shaders::attention_frag, pass) {}

void HeatMap::add(Canvas& canvas, ImVec2 low, ImVec2 high, const HeadMap& map, float gamma, uint32_t row,
                  uint32_t column) const {
    const struct {
        VkDeviceAddress map;
        uint32_t queries, keys;
        float gamma;
        uint32_t row, column;
        float cell;
    } push{map.address, map.queries, map.keys, gamma, row, column, (high.x - low.x) / static_cast<float>(map.keys)};
    canvas.add(low, high, [this, push](VkCommandBuffer commands) { pipeline_.draw(commands, push, 6); });
}

} // namespace observatory
