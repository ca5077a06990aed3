// Gradients of the patches of convolutions, and of pools.
#include "graph/gradient/backward.hpp"
#include "graph/operations/windows.hpp"

namespace hekla::graph {
namespace {

// Sums over copies: their gradient is the copies again.
bool gradient_of_sums(Backward& b) {
    const Node& node = b.node();
    if (node.op != Op::patches_gradient && node.op != Op::avg_pool2d_gradient) return false;
    const NamedAttribute kernel{"kernel", node.ints("kernel")}, stride{"stride", node.ints("stride")},
        padding{"padding", node.ints("padding")};
    if (node.op == Op::patches_gradient)
        b.give(0,
               b.builder()(
                   Op::patches, {b.dy()},
                   {kernel, stride, padding, {"dilation", node.ints("dilation")}, {"groups", node.integer("groups")}}));
    else
        b.give(0, b.builder()(Op::avg_pool2d, {b.dy()},
                              {kernel, stride, padding, {"count_padding", node.integer("count_padding")}}));
    return true;
}

} // namespace

bool windows_gradient(Backward& b) {
    if (gradient_of_sums(b)) return true;
    const Op op = b.node().op;
    if (op != Op::patches && op != Op::max_pool2d && op != Op::avg_pool2d) return false;
    const Windows windows = windows_of(b.builder().graph(), b.node());
    const Shape x = b.shape(b.x());
    const NamedAttribute size{"size", ints({x[1], x[2]})}, kernel{"kernel", ints(windows.kernel)},
        stride{"stride", ints(windows.stride)}, padding{"padding", ints(windows.padding)},
        dilation{"dilation", ints(windows.dilation)};
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
