#include "views/principal_axes.hpp"

#include "shaders.hpp"

namespace observatory {
namespace {

constexpr uint32_t kThreads = 64;
constexpr uint64_t kVector = 16; // bytes

} // namespace

PrincipalAxes::PrincipalAxes(Device& device)
    : device_(device), project_(device, shaders::project_comp), project_back_(device, shaders::project_back_comp),
      axes_(device, shaders::axes_comp) {}

void PrincipalAxes::begin(const hk_tensor& table) {
    table_ = address_of(table);
    rows_ = static_cast<uint32_t>(table.dims[0]);
    width_ = static_cast<uint32_t>(table.dims[1]);
    rounds_ = 0;
    axis_ = Buffer(device_, width_ * kVector, Buffer::Storage::mapped);
    places_ = Buffer(device_, rows_ * kVector, Buffer::Storage::mapped);
    sums_ = Buffer(device_, uint64_t{kParts} * width_ * kVector, Buffer::Storage::device);
    variance_ = Buffer(device_, kVector, Buffer::Storage::mapped);
    uint32_t state = 1; // an arbitrary but constant seed; the start must not be orthogonal to the axes
    for (uint32_t i = 0; i < width_ * 4; ++i) {
        state = state * 1664525U + 1013904223U;
        axis_.as<float>()[i] = i % 4 == 3 ? 0.0F : static_cast<float>(state >> 8) / 8388608.0F - 1.0F;
    }
}

void PrincipalAxes::project(VkCommandBuffer commands) const {
    const struct {
        VkDeviceAddress table, axes, places;
        uint32_t tokens, width;
    } push{table_, axis_.address(), places_.address(), rows_, width_};
    project_.dispatch(commands, push, (rows_ + kThreads - 1) / kThreads);
    barrier(commands);
}

void PrincipalAxes::record(VkCommandBuffer commands, int rounds) {
    if (rows_ == 0 || rounds_ >= kRounds) return;
    for (int round = 0; round < rounds && rounds_ < kRounds; ++round, ++rounds_) {
        project(commands);
        const struct {
            VkDeviceAddress table, places, sums;
            uint32_t tokens, width, parts;
        } back{table_, places_.address(), sums_.address(), rows_, width_, kParts};
        project_back_.dispatch(commands, back, (width_ + kThreads - 1) / kThreads, kParts);
        barrier(commands);
        const struct {
            VkDeviceAddress sums, axes, variance;
            uint32_t tokens, width, parts;
        } next{sums_.address(), axis_.address(), variance_.address(), rows_, width_, kParts};
        axes_.dispatch(commands, next, 1);
        barrier(commands);
    }
    project(commands);
}

} // namespace observatory
