#include "vulkan/one_shot_commands.hpp"

#include "failure.hpp"
#include "vulkan/pipeline.hpp"

namespace observatory {

Once::Once(Device& device) : device_(device) {
    device.make_commands(pool_, {&commands_, 1});
    VkFenceCreateInfo fence{};
    fence.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
    require(vkCreateFence(device.handle(), &fence, nullptr, &done_), "vkCreateFence");
}

Once::~Once() {
    vkDestroyFence(device_.handle(), done_, nullptr);
    vkDestroyCommandPool(device_.handle(), pool_, nullptr);
}

void Once::run(const std::function<void(VkCommandBuffer)>& record) {
    VkCommandBufferBeginInfo begin{};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    require(vkBeginCommandBuffer(commands_, &begin), "vkBeginCommandBuffer");
    barrier(commands_); // waits for all work submitted to the queue before
    record(commands_);
    barrier(commands_);
    require(vkEndCommandBuffer(commands_), "vkEndCommandBuffer");
    VkSubmitInfo submit{};
    submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &commands_;
    {
        const std::lock_guard guard(device_.queue_mutex());
        require(vkQueueSubmit(device_.queue(), 1, &submit, done_), "vkQueueSubmit");
    }
    require(vkWaitForFences(device_.handle(), 1, &done_, VK_TRUE, UINT64_MAX), "vkWaitForFences");
    require(vkResetFences(device_.handle(), 1, &done_), "vkResetFences");
}

} // namespace observatory
