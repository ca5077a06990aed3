#include "graph/convolution.hpp"

#include "graph/windows.hpp"

namespace hekla::graph {
namespace {

using Ints = std::vector<int64_t>;

ValueId reshape_to(Builder& b, ValueId x, Ints shape) { return b(Op::reshape, {x}, {{"shape", std::move(shape)}}); }

ValueId permute(Builder& b, ValueId x, Ints permutation) {
    return b(Op::transpose, {x}, {{"permutation", std::move(permutation)}});
}

// A convolution of x [B, H, W, C] with weight [O, C / groups, kh, kw].
struct Convolution {
    ValueId x, weight, bias;
    Windows windows;
    int64_t groups;
};

ValueId patches_of(Builder& b, const Convolution& c, int64_t groups) {
    const Windows& w = c.windows;
    if (w.elements() == 1 && w.stride == Windows::Pair{1, 1} && w.padding == Windows::Pair{0, 0}) return c.x;
    return b(Op::patches, {c.x},
             {{"kernel", ints(w.kernel)},
              {"stride", ints(w.stride)},
              {"padding", ints(w.padding)},
              {"dilation", ints(w.dilation)},
              {"groups", groups}});
}

// Returns the weight with its elements in the order of patches: [O, kh, kw, C / groups].
ValueId weight_by_patches(Builder& b, const Convolution& c) { return permute(b, c.weight, {0, 2, 3, 1}); }

ValueId with_bias(Builder& b, const Convolution& c, ValueId y) { return c.bias == kNone ? y : b(Op::add, {y, c.bias}); }

ValueId dense(Builder& b, const Convolution& c) {
    const ValueId patches = patches_of(b, c, 1);
    const ValueId rows = reshape_to(b, weight_by_patches(b, c), {b.shape(c.weight)[0], -1});
    return b(Op::linear, {patches, rows, c.bias});
}

// With one channel in and out of every group, a product would have one column: elements are multiplied and summed
// instead.
ValueId depthwise(Builder& b, const Convolution& c) {
    const ValueId patches = patches_of(b, c, 1);
    const Shape y = b.shape(patches);
    const int64_t channels = b.shape(c.x)[3], elements = c.windows.elements();
    const ValueId windows = reshape_to(b, patches, {y[0], y[1], y[2], elements, channels});
    const ValueId factors = permute(b, reshape_to(b, c.weight, {channels, elements}), {1, 0});
    const ValueId products = b(Op::mul, {windows, factors});
    return with_bias(b, c, b(Op::sum, {products}, {{"axes", Ints{3}}}));
}

ValueId grouped(Builder& b, const Convolution& c) {
    const ValueId patches = patches_of(b, c, c.groups);
    const Shape y = b.shape(patches);
    const int64_t out = b.shape(c.weight)[0], rows = y[0] * y[1] * y[2], width = y[3] / c.groups;
    const ValueId left = permute(b, reshape_to(b, patches, {rows, c.groups, width}), {1, 0, 2});
    const ValueId right = reshape_to(b, weight_by_patches(b, c), {c.groups, out / c.groups, width});
    const ValueId product = b(Op::matmul, {left, right}, {{"transpose_b", int64_t{1}}}); // [groups, rows, O / groups]
    return with_bias(b, c, reshape_to(b, permute(b, product, {1, 0, 2}), {y[0], y[1], y[2], out}));
}

ValueId convolve(Builder& b, const Convolution& c) {
    if (c.groups == 1) return dense(b, c);
    const Shape weight = b.shape(c.weight);
    return weight[1] == 1 && weight[0] == c.groups ? depthwise(b, c) : grouped(b, c);
}

ValueId conv1d(Builder& b, const Node& node, const Windows& windows) {
    const Shape x = b.shape(node.inputs[0]), weight = b.shape(node.inputs[1]);
    const Convolution c{reshape_to(b, node.inputs[0], {x[0], 1, x[1], x[2]}),
                        reshape_to(b, node.inputs[1], {weight[0], weight[1], 1, weight[2]}), node.inputs[2], windows,
                        node.integer("groups")};
    const ValueId y = convolve(b, c);
    if (!b.ok()) return kNone;
    return reshape_to(b, y, {b.shape(y)[0], b.shape(y)[2], b.shape(y)[3]});
}

ValueId pool1d(Builder& b, const Node& node, const Windows& windows) {
    const Shape shape = b.shape(node.inputs[0]);
    const ValueId x = reshape_to(b, node.inputs[0], {shape[0], 1, shape[1], shape[2]});
    const NamedAttribute kernel{"kernel", ints(windows.kernel)}, stride{"stride", ints(windows.stride)},
        padding{"padding", ints(windows.padding)};
    const ValueId y =
        node.op == Op::max_pool1d
            ? b(Op::max_pool2d, {x}, {kernel, stride, padding, {"dilation", ints(windows.dilation)}})
            : b(Op::avg_pool2d, {x}, {kernel, stride, padding, {"count_padding", node.integer("count_padding")}});
    if (!b.ok()) return kNone;
    return reshape_to(b, y, {b.shape(y)[0], b.shape(y)[2], b.shape(y)[3]});
}

} // namespace

std::vector<ValueId> expand_convolution(Builder& b, const Node& node) {
    const Windows windows = windows_of(b.graph(), node);
    ValueId y = kNone;
    switch (node.op) {
    case Op::conv2d:
        y = convolve(b, {node.inputs[0], node.inputs[1], node.inputs[2], windows, node.integer("groups")});
        break;
    case Op::conv1d: y = conv1d(b, node, windows); break;
    default: y = pool1d(b, node, windows); break;
    }
    return b.ok() ? std::vector<ValueId>{y} : std::vector<ValueId>{};
}

} // namespace hekla::graph
