// The app's own shaders. All their inputs are push constants, some of which are buffer addresses.
#pragma once

#include "vulkan/device.hpp"

#include <cstdint>
#include <span>

namespace observatory {

// One or two shaders whose layout contains only push constants.
class Pipeline {
public:
    using Words = std::span<const uint32_t>;
    static constexpr uint32_t kPushBytes = 128;

    Pipeline(Device& device, Words compute);
    // Draws triangles without vertex buffers, blended over the existing image.
    Pipeline(Device& device, Words vertex, Words fragment, VkRenderPass pass);
    ~Pipeline();
    Pipeline(const Pipeline&) = delete;
    Pipeline& operator=(const Pipeline&) = delete;

    template<class Push>
    void dispatch(VkCommandBuffer commands, const Push& push, uint32_t groups, uint32_t groups_y = 1) const {
        bind(commands, &push, sizeof push);
        vkCmdDispatch(commands, groups, groups_y, 1);
    }
    template<class Push>
    void draw(VkCommandBuffer commands, const Push& push, uint32_t vertices, uint32_t instances = 1) const {
        bind(commands, &push, sizeof push);
        vkCmdDraw(commands, vertices, instances, 0, 0);
    }

private:
    void make_layout();
    VkShaderModule make_module(Words words) const;
    void bind(VkCommandBuffer commands, const void* push, std::size_t bytes) const;
    Device& device_;
    VkPipelineBindPoint point_;
    VkPipelineLayout layout_ = VK_NULL_HANDLE;
    VkPipeline pipeline_ = VK_NULL_HANDLE;
};

// Makes shader writes visible to later shaders, and to the host once the commands have completed.
void barrier(VkCommandBuffer commands);

} // namespace observatory
