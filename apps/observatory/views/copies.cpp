#include "views/copies.hpp"

#include "shaders.hpp"

namespace observatory {

Copies::Copies(Device& device) : device_(device), pipeline_(device, shaders::copy_comp) {}

void Copies::record(VkCommandBuffer commands, std::span<const hk_tensor> tensors) {
    constexpr uint32_t kGroup = 64; // threads
    begins_.assign(1, 0);
    for (const hk_tensor& tensor : tensors) {
        std::size_t count = 1;
        for (uint32_t i = 0; i < tensor.rank; ++i) count *= static_cast<std::size_t>(tensor.dims[i]);
        begins_.push_back(begins_.back() + count);
    }
    if (begins_.back() == 0) return;
    const uint64_t bytes = begins_.back() * sizeof(float);
    if (values_.bytes() < bytes) values_ = Buffer(device_, bytes, Buffer::Storage::mapped);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const auto count = static_cast<uint32_t>(begins_[i + 1] - begins_[i]);
        const struct {
            VkDeviceAddress from, to;
            uint32_t count;
        } push{address_of(tensors[i]), values_.address() + begins_[i] * sizeof(float), count};
        pipeline_.dispatch(commands, push, (count + kGroup - 1) / kGroup);
    }
    barrier(commands);
}

} // namespace observatory
