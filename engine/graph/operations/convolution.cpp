// Convolutions, and pools along one dimension, as the operations that compute them: a convolution is one matrix product
// of the patches of x with the weight, whose gradients are those of the product and of patches.
#include "graph/builder.hpp"
#include "graph/operations/rules.hpp"
#include "graph/operations/windows.hpp"

#include <algorithm>

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

enum class Form { dense, grouped, depthwise };

Form form_of(const Builder& b, const Convolution& c) {
    if (c.groups == 1) return Form::dense;
    const Shape weight = b.shape(c.weight);
    return weight[1] == 1 && weight[0] == c.groups ? Form::depthwise : Form::grouped;
}

bool is_pointwise(const Windows& w) {
    return w.elements() == 1 && w.stride == Windows::Pair{1, 1} && w.padding == Windows::Pair{0, 0};
}

ValueId patches_of(Builder& b, const Convolution& c, ValueId x, int64_t groups) {
    const Windows& w = c.windows;
    if (is_pointwise(w)) return x;
    return b(Op::patches, {x},
             {{"kernel", ints(w.kernel)},
              {"stride", ints(w.stride)},
              {"padding", ints(w.padding)},
              {"dilation", ints(w.dilation)},
              {"groups", groups}});
}

// Returns the weight as the products read it: with the elements of a filter in the order of patches.
ValueId factors_of(Builder& b, const Convolution& c, Form form) {
    const Shape weight = b.shape(c.weight);
    const int64_t elements = c.windows.elements();
    if (form == Form::depthwise) return permute(b, reshape_to(b, c.weight, {weight[0], elements}), {1, 0});
    const ValueId ordered = permute(b, c.weight, {0, 2, 3, 1}); // [O, kh, kw, C / groups]
    if (form == Form::dense) return reshape_to(b, ordered, {weight[0], -1});
    return reshape_to(b, ordered, {c.groups, weight[0] / c.groups, elements * weight[1]});
}

ValueId with_bias(Builder& b, const Convolution& c, ValueId y) { return c.bias == kNone ? y : b(Op::add, {y, c.bias}); }

ValueId dense(Builder& b, const Convolution& c, ValueId x, ValueId factors) {
    return b(Op::linear, {patches_of(b, c, x, 1), factors, c.bias});
}

// With one channel in and out of every group, a product would have one column: elements are multiplied and summed
// instead.
ValueId depthwise(Builder& b, const Convolution& c, ValueId x, ValueId factors) {
    const ValueId patches = patches_of(b, c, x, 1);
    const Shape y = b.shape(patches);
    const ValueId windows = reshape_to(b, patches, {y[0], y[1], y[2], c.windows.elements(), b.shape(x)[3]});
    const ValueId products = b(Op::mul, {windows, factors});
    return with_bias(b, c, b(Op::sum, {products}, {{"axes", Ints{3}}}));
}

ValueId grouped(Builder& b, const Convolution& c, ValueId x, ValueId factors) {
    const ValueId patches = patches_of(b, c, x, c.groups);
    const Shape y = b.shape(patches);
    const int64_t out = b.shape(c.weight)[0], rows = y[0] * y[1] * y[2], width = y[3] / c.groups;
    const ValueId left = permute(b, reshape_to(b, patches, {rows, c.groups, width}), {1, 0, 2});
    const ValueId product = b(Op::matmul, {left, factors}, {{"transpose_b", int64_t{1}}}); // [groups, rows, O / groups]
    return with_bias(b, c, reshape_to(b, permute(b, product, {1, 0, 2}), {y[0], y[1], y[2], out}));
}

ValueId product_of(Builder& b, const Convolution& c, Form form, ValueId x, ValueId factors) {
    switch (form) {
    case Form::depthwise: return depthwise(b, c, x, factors);
    case Form::grouped: return grouped(b, c, x, factors);
    case Form::dense: break;
    }
    return dense(b, c, x, factors);
}

// Patches take several times the memory of x. They are computed for some rows of the batch at a time: for one, or for
// as many as have no more than this number of elements.
constexpr int64_t kMostPatchElements = int64_t{1} << 22;

ValueId convolve(Builder& b, const Convolution& c) {
    const Form form = form_of(b, c);
    const Shape x = b.shape(c.x);
    const ValueId factors = factors_of(b, c, form);
    const int64_t of_row = c.windows.count(0, x[1]) * c.windows.count(1, x[2]) * c.windows.elements() * x[3];
    const int64_t fit = std::max<int64_t>(1, kMostPatchElements / std::max<int64_t>(1, of_row));
    const int64_t parts = (x[0] + fit - 1) / fit;
    if (parts < 2 || is_pointwise(c.windows)) return product_of(b, c, form, c.x, factors);
    const int64_t rows = (x[0] + parts - 1) / parts;
    std::vector<ValueId> all;
    for (int64_t start = 0; start < x[0] && b.ok(); start += rows) {
        const ValueId some =
            b(Op::slice, {c.x}, {{"axis", int64_t{0}}, {"start", start}, {"length", std::min(rows, x[0] - start)}});
        all.push_back(product_of(b, c, form, some, factors));
    }
    const NamedAttribute along[] = {{"axis", int64_t{0}}};
    const std::vector<ValueId> joined = b.emit(Op::concat, all, along);
    return joined.empty() ? kNone : joined[0];
}

std::vector<ValueId> expand_conv2d(Builder& b, const Node& node) {
    const Windows windows = windows_of(b.graph(), node);
    const ValueId y = convolve(b, {node.inputs[0], node.inputs[1], node.inputs[2], windows, node.integer("groups")});
    return b.ok() ? std::vector<ValueId>{y} : std::vector<ValueId>{};
}

// Returns y [B, 1, T, C] as [B, T, C].
std::vector<ValueId> along_one_dimension(Builder& b, ValueId y) {
    if (!b.ok()) return {};
    const Shape shape = b.shape(y);
    return {reshape_to(b, y, {shape[0], shape[2], shape[3]})};
}

std::vector<ValueId> expand_conv1d(Builder& b, const Node& node) {
    const Windows windows = windows_of(b.graph(), node);
    const Shape x = b.shape(node.inputs[0]), weight = b.shape(node.inputs[1]);
    const Convolution c{reshape_to(b, node.inputs[0], {x[0], 1, x[1], x[2]}),
                        reshape_to(b, node.inputs[1], {weight[0], weight[1], 1, weight[2]}), node.inputs[2], windows,
                        node.integer("groups")};
    return along_one_dimension(b, convolve(b, c));
}

std::vector<ValueId> expand_pool1d(Builder& b, const Node& node) {
    const Windows windows = windows_of(b.graph(), node);
    const Shape shape = b.shape(node.inputs[0]);
    const ValueId x = reshape_to(b, node.inputs[0], {shape[0], 1, shape[1], shape[2]});
    const NamedAttribute kernel{"kernel", ints(windows.kernel)}, stride{"stride", ints(windows.stride)},
        padding{"padding", ints(windows.padding)};
    const ValueId y =
        node.op == Op::max_pool1d
            ? b(Op::max_pool2d, {x}, {kernel, stride, padding, {"dilation", ints(windows.dilation)}})
            : b(Op::avg_pool2d, {x}, {kernel, stride, padding, {"count_padding", node.integer("count_padding")}});
    return along_one_dimension(b, y);
}

} // namespace

const OperationRules conv1d_rules{convolution_outputs, nullptr, nullptr, expand_conv1d};
const OperationRules conv2d_rules{convolution_outputs, nullptr, nullptr, expand_conv2d};
const OperationRules max_pool1d_rules{pool_outputs, nullptr, nullptr, expand_pool1d};
const OperationRules avg_pool1d_rules{pool_outputs, nullptr, nullptr, expand_pool1d};

} // namespace hekla::graph
