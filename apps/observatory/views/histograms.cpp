#include "views/histograms.hpp"

#include "shaders.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

namespace observatory {
namespace {

uint64_t elements_of(const hk_tensor& tensor) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < tensor.rank; ++i) count *= static_cast<uint64_t>(tensor.dims[i]);
    return count;
}

} // namespace

Histograms::Histograms(Device& device)
    : device_(device), once_(device), extremes_(device, shaders::extremes_comp), bins_(device, shaders::bins_comp) {}

std::vector<Histogram> Histograms::take(std::span<const hk_tensor> tensors) {
    if (tensors.empty()) return {};
    const uint64_t bytes = tensors.size() * sizeof(Result);
    if (results_.bytes() < bytes) results_ = Buffer(device_, bytes, Buffer::Storage::mapped);
    std::memset(results_.as<std::byte>(), 0, bytes);
    once_.run([&](VkCommandBuffer commands) {
        struct {
            VkDeviceAddress values, parts, counts;
            uint32_t count, groups;
        } push{};
        push.groups = kGroups;
        const auto place = [&](std::size_t i) {
            push.values = address_of(tensors[i]);
            push.parts = results_.address() + i * sizeof(Result);
            push.counts = push.parts + offsetof(Result, counts);
            push.count = static_cast<uint32_t>(elements_of(tensors[i]));
        };
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            place(i);
            const struct {
                VkDeviceAddress values, parts;
                uint32_t count, groups;
            } first{push.values, push.parts, push.count, push.groups};
            extremes_.dispatch(commands, first, kGroups);
        }
        barrier(commands);
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            place(i);
            bins_.dispatch(commands, push, kGroups);
        }
    });
    std::vector<Histogram> histograms;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const Result& result = results_.as<Result>()[i];
        Histogram h;
        std::copy(std::begin(result.counts), std::end(result.counts), h.counts.begin());
        double sum = 0, squares = 0;
        float least = result.parts[0].least, greatest = result.parts[0].greatest;
        for (const Extremes& part : result.parts) {
            least = std::min(least, part.least);
            greatest = std::max(greatest, part.greatest);
            sum += static_cast<double>(part.sum);
            squares += static_cast<double>(part.squares);
            h.not_finite += part.wrong;
        }
        const double count = static_cast<double>(elements_of(tensors[i]) - h.not_finite);
        if (count > 0) {
            h.least = static_cast<double>(least);
            h.greatest = static_cast<double>(greatest);
            h.mean = sum / count;
            h.deviation = std::sqrt(std::max(squares / count - h.mean * h.mean, 0.0));
        }
        histograms.push_back(h);
    }
    return histograms;
}

} // namespace observatory
