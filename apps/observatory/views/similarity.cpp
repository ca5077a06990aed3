#include "views/similarity.hpp"

#include "shaders.hpp"

#include <algorithm>

namespace observatory {

Likeness::Likeness(Device& device) : device_(device), pipeline_(device, shaders::likeness_comp) {}

void Likeness::record(VkCommandBuffer commands, const hk_tensor& table, uint32_t row) {
    rows_ = static_cast<uint32_t>(table.dims[0]);
    row_ = row;
    if (cosines_.bytes() < rows_ * sizeof(float))
        cosines_ = Buffer(device_, rows_ * sizeof(float), Buffer::Storage::mapped);
    const struct {
        VkDeviceAddress table, cosines;
        uint32_t tokens, width, chosen;
    } push{address_of(table), cosines_.address(), rows_, static_cast<uint32_t>(table.dims[1]), row};
    pipeline_.dispatch(commands, push, (rows_ + 63) / 64);
    barrier(commands);
}

std::vector<Likeness::Neighbor> Likeness::nearest(std::size_t count) const {
    std::vector<Neighbor> all;
    for (uint32_t i = 0; i < rows_; ++i)
        if (i != row_) all.push_back({i, cosines_.as<float>()[i]});
    count = std::min(count, all.size());
    std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end(),
                      [](const Neighbor& a, const Neighbor& b) { return a.cosine > b.cosine; });
    all.resize(count);
    return all;
}

} // namespace observatory
