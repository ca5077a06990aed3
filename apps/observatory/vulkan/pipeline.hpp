// Shaders of the app's own: everything that they read comes as push constants, addresses among them.
#pragma once

#include "vulkan/device.hpp"

#include <cstdint>
#include <span>

namespace observatory {

// One or two shaders with a layout of push constants alone.
class Pipeline {
public:
    using Words = std::span<const uint32_t>;
    static constexpr uint32_t kPushBytes = 128;

    Pipeline(Device& device, Words compute);
    // Triangles without vertex buffers, blended over what is there.
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

// What shaders wrote is there for the shaders after it, and for the host once the commands have been executed.
void barrier(VkCommandBuffer commands);

} // namespace observatory
