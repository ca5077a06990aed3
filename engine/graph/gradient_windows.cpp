// Gradients of the patches of convolutions, and of pools.
#include "graph/backward.hpp"
#include "graph/windows.hpp"

namespace hekla::graph {
namespace {

std::vector<int64_t> height_and_width(Backward& b) {
    const Shape x = b.shape(b.x());
    return {x[1], x[2]};
}

} // namespace

bool windows_gradient(Backward& b) {
    const Op op = b.node().op;
    if (op != Op::patches && op != Op::max_pool2d && op != Op::avg_pool2d) return false;
    const Windows windows = windows_of(b.builder().graph(), b.node());
    const auto pair = [](const Windows::Pair& p) { return std::vector<int64_t>{p[0], p[1]}; };
    const NamedAttribute size{"size", height_and_width(b)}, kernel{"kernel", pair(windows.kernel)},
        stride{"stride", pair(windows.stride)}, padding{"padding", pair(windows.padding)},
        dilation{"dilation", pair(windows.dilation)};
    Builder& build = b.builder();
    switch (op) {
    case Op::patches:
        b.give(0, build(Op::patches_gradient, {b.dy()},
                        {size, kernel, stride, padding, dilation, {"groups", b.node().integer("groups")}}));
        break;
    case Op::max_pool2d:
        b.give(0, build(Op::max_pool2d_gradient, {b.dy(), b.y(1)}, {size, kernel, stride, padding, dilation}));
        break;
    default:
        b.give(0, build(Op::avg_pool2d_gradient, {b.dy()},
                        {size, kernel, stride, padding, {"count_padding", b.node().integer("count_padding")}}));
    }
    return true;
}

} // namespace hekla::graph
