// The windows of convolutions and pools: which elements along H and W of x [B, H, W, C] one element of the result
// reads. Window i begins at i * stride - padding; its element u is u * dilation later.
#pragma once

#include "graph/operations/shape_rule.hpp"

#include <array>

namespace hekla::graph {

struct Windows {
    using Pair = std::array<int64_t, 2>; // along H and along W
    Pair kernel{1, 1}, stride{1, 1}, padding{0, 0}, dilation{1, 1};

    // Returns how many elements a window covers, and how many windows there are in `size` elements with the padding.
    int64_t reach(std::size_t axis) const { return dilation[axis] * (kernel[axis] - 1) + 1; }
    int64_t count(std::size_t axis, int64_t size) const {
        return (size + 2 * padding[axis] - reach(axis)) / stride[axis] + 1;
    }
    int64_t elements() const { return kernel[0] * kernel[1]; }
    bool operator==(const Windows&) const = default;
};

// Returns the windows of a node. Operations along one dimension have windows of one element along H.
Result<Windows> windows_of(const Rule& rule);
Windows windows_of(const Graph& graph, const Node& node); // of a node that was checked
// Returns the shape of x [B, H, W, C], which patches and 2d pools read and their gradients compute.
const Shape& windowed_shape(const Graph& graph, const Node& node);
// Returns a pair as an attribute.
inline std::vector<int64_t> ints(const Windows::Pair& pair) { return {pair[0], pair[1]}; }

// The shape rules of conv1d and conv2d, and of pools.
Result<Outputs> convolution_outputs(const Rule& rule);
Result<Outputs> pool_outputs(const Rule& rule);

} // namespace hekla::graph
