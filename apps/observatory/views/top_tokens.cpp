#include "views/top_tokens.hpp"

#include "shaders.hpp"

namespace observatory {

TopTokens::TopTokens(Device& device) : device_(device), pipeline_(device, shaders::top_tokens_comp) {}

void TopTokens::record(VkCommandBuffer commands, std::span<const hk_tensor> logits) {
    if (logits.empty()) return;
    const hk_tensor& first = logits.front();
    const auto rows = static_cast<std::size_t>(first.dims[first.rank - 2]);
    const uint64_t bytes = logits.size() * rows * sizeof(Row);
    if (rows_.bytes() < bytes) rows_ = Buffer(device_, bytes, Buffer::Storage::mapped);
    each_ = rows;
    struct {
        VkDeviceAddress logits, tokens;
        uint32_t vocabulary, count;
    } push{};
    push.count = kCount;
    push.vocabulary = static_cast<uint32_t>(first.dims[first.rank - 1]);
    for (std::size_t i = 0; i < logits.size(); ++i) {
        push.logits = address_of(logits[i]);
        push.tokens = rows_.address() + i * rows * sizeof(Row);
        pipeline_.dispatch(commands, push, static_cast<uint32_t>(rows));
    }
    barrier(commands);
}

} // namespace observatory
