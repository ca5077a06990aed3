// Operations that move elements: other shapes, parts and repetitions of a value.
#include "graph/gradient/backward.hpp"
#include "graph/operations/rules.hpp"
#include "graph/operations/shape_rule.hpp"
#include "graph/reference/call.hpp"

#include <algorithm>
#include <fmt/ranges.h>

namespace hekla::graph {
namespace {

// Copies to[...] = from[...] over `shape`, each with its own strides.
void copy_elements(const Shape& shape, double* to, int64_t to_offset, const Strides& to_strides, const double* from,
                   int64_t from_offset, const Strides& from_strides) {
    for_each_row<2>(shape, {to_strides, from_strides}, {to_offset, from_offset},
                    [&](const auto& offset, int64_t length, const auto& step) {
                        double* y = to + offset[0];
                        const double* x = from + offset[1];
                        if (step[0] == 1 && step[1] == 1) {
                            std::copy_n(x, length, y);
                            return;
                        }
                        for (int64_t i = 0; i < length; ++i) y[i * step[0]] = x[i * step[1]];
                    });
}

Result<Outputs> reshape_outputs(const Rule& r) {
    std::vector<int64_t> dims = r.node.ints("shape");
    int64_t known = 1;
    int open = -1;
    for (std::size_t i = 0; i < dims.size(); ++i) {
        if (dims[i] == -1) {
            if (open >= 0) return r.error("[{}] leaves more than one dimension open", fmt::join(dims, ", "));
            open = static_cast<int>(i);
        }
    }
    std::vector<int64_t> closed = dims;
    if (open >= 0) closed[static_cast<std::size_t>(open)] = 1;
    HK_TRY(sizes_ok(r, closed));
    for (const int64_t dim : closed) known *= dim;
    const int64_t all = r.shape(0).elements();
    if (open >= 0) {
        if (known == 0 || all % known != 0)
            return r.error("{} has {} elements, which [{}] cannot hold", r.text(0), all, fmt::join(dims, ", "));
        closed[static_cast<std::size_t>(open)] = all / known;
    } else if (known != all) {
        return r.error("{} has {} elements, [{}] has {}", r.text(0), all, fmt::join(dims, ", "), known);
    }
    return one(r.kind(0), Shape(closed));
}

void reshape_gradient(Backward& b) { b.give(0, b.reshape(b.dy(), b.shape(b.x()))); }

Result<Outputs> transpose_outputs(const Rule& r) {
    const std::vector<int64_t>& permutation = r.node.ints("permutation");
    const Shape& x = r.shape(0);
    std::array<bool, kMaxRank> seen{};
    if (permutation.size() != static_cast<std::size_t>(x.rank()))
        return r.error("[{}] is not a permutation of the {} dimensions of {}", fmt::join(permutation, ", "), x.rank(),
                       x.text());
    Shape y = x;
    for (std::size_t i = 0; i < permutation.size(); ++i) {
        const int64_t from = permutation[i];
        if (from < 0 || from >= x.rank() || seen[static_cast<std::size_t>(from)])
            return r.error("[{}] is not a permutation of the {} dimensions of {}", fmt::join(permutation, ", "),
                           x.rank(), x.text());
        seen[static_cast<std::size_t>(from)] = true;
        y[static_cast<int>(i)] = x[static_cast<int>(from)];
    }
    return one(r.kind(0), y);
}

void transpose_gradient(Backward& b) {
    const std::vector<int64_t>& permutation = b.node().ints("permutation");
    std::vector<int64_t> inverse(permutation.size());
    for (std::size_t i = 0; i < permutation.size(); ++i)
        inverse[static_cast<std::size_t>(permutation[i])] = static_cast<int64_t>(i);
    b.give(0, b.builder()(Op::transpose, {b.dy()}, {{"permutation", std::move(inverse)}}));
}

Status run_transpose(const Call& call) {
    const Tensor& x = call.in(0);
    Tensor& y = call.out();
    const auto& permutation = call.node.ints("permutation");
    const Strides own = x.shape.strides();
    Strides read;
    for (std::size_t i = 0; i < permutation.size(); ++i) read[i] = own[from_start(permutation[i], x.shape.rank())];
    copy_elements(y.shape, y.data.data(), 0, y.shape.strides(), x.data.data(), 0, read);
    return {};
}

Result<Outputs> slice_outputs(const Rule& r) {
    HK_ASSIGN(const int axis, r.axis("axis", r.shape(0)));
    const int64_t start = r.node.integer("start"), length = r.node.integer("length"), stride = r.node.integer("stride");
    const int64_t size = r.shape(0)[axis];
    if (stride < 1 || length < 0 || start < 0 || start > size ||
        (length > 0 && (size - 1 - start) / stride < length - 1) || (length > 0 && start >= size))
        return r.error("{} elements from {} by {} are outside axis {} of {}", length, start, stride, axis, r.text(0));
    Shape y = r.shape(0);
    y[axis] = length;
    return one(r.kind(0), y);
}

void slice_gradient(Backward& b) {
    const Node& node = b.node();
    const int64_t axis = node.integer("axis");
    if (node.integer("stride") == 1)
        return b.give_slice(0, b.dy(), from_start(axis, b.shape(b.x()).rank()), node.integer("start"));
    b.give(0, b.builder()(Op::unslice, {b.dy()},
                          {{"axis", axis},
                           {"start", node.integer("start")},
                           {"stride", node.integer("stride")},
                           {"length", b.shape(b.x())[static_cast<int>(axis)]}}));
}

Status run_slice(const Call& call) {
    const Tensor& x = call.in(0);
    Tensor& y = call.out();
    const int64_t axis = from_start(call.node.integer("axis"), x.shape.rank());
    Strides read = x.shape.strides();
    const int64_t offset = call.node.integer("start") * read[axis];
    read[axis] *= call.node.integer("stride");
    copy_elements(y.shape, y.data.data(), 0, y.shape.strides(), x.data.data(), offset, read);
    return {};
}

Result<Outputs> unslice_outputs(const Rule& r) {
    HK_ASSIGN(const int axis, r.axis("axis", r.shape(0)));
    Shape y = r.shape(0);
    y[axis] = r.node.integer("length");
    HK_TRY(sizes_ok(r, y.dims()));
    const int64_t count = r.shape(0)[axis], start = r.node.integer("start"), stride = r.node.integer("stride");
    if (start < 0 || stride < 1 || (count > 0 && (start >= y[axis] || (y[axis] - 1 - start) / stride < count - 1)))
        return r.error("{} elements from {} by {} are outside {}", count, start, stride, y.text());
    return one(r.kind(0), y);
}

void unslice_gradient(Backward& b) {
    const Node& node = b.node();
    const int64_t axis = node.integer("axis");
    b.give(0, b.slice(b.dy(), axis, node.integer("start"), b.shape(b.x())[static_cast<int>(axis)],
                      node.integer("stride")));
}

Status run_unslice(const Call& call) {
    const Tensor& x = call.in(0);
    Tensor& y = call.out();
    const int64_t axis = from_start(call.node.integer("axis"), x.shape.rank());
    Strides write = y.shape.strides();
    const int64_t offset = call.node.integer("start") * write[axis];
    write[axis] *= call.node.integer("stride");
    copy_elements(x.shape, y.data.data(), offset, write, x.data.data(), 0, x.shape.strides());
    return {};
}

Result<Outputs> concat_outputs(const Rule& r) {
    HK_ASSIGN(const int axis, r.axis("axis", r.shape(0)));
    Shape y = r.shape(0);
    Kind kind = r.kind(0);
    for (std::size_t i = 1; i < r.node.inputs.size(); ++i) {
        Shape other = r.shape(i);
        if (other.rank() != y.rank()) return r.error("{} and {} have different ranks", r.text(0), r.text(i));
        if (is_float(kind) != is_float(r.kind(i)))
            return r.error("parts of kinds {} and {}", kind_name(kind), kind_name(r.kind(i)));
        kind = joined(kind, r.kind(i));
        const int64_t length = other[axis];
        other[axis] = r.shape(0)[axis];
        if (!(other == r.shape(0))) return r.error("{} and {} differ outside axis {}", r.text(0), r.text(i), axis);
        y[axis] += length;
    }
    HK_TRY(sizes_ok(r, y.dims()));
    return one(kind, y);
}

void concat_gradient(Backward& b) {
    const int64_t axis = b.node().integer("axis");
    int64_t start = 0;
    for (std::size_t i = 0; i < b.node().inputs.size(); ++i) {
        const int64_t length = b.shape(b.x(i))[static_cast<int>(axis)];
        if (b.wants(i)) b.give(i, b.slice(b.dy(), axis, start, length));
        start += length;
    }
}

Status run_concat(const Call& call) {
    Tensor& y = call.out();
    const Strides write = y.shape.strides();
    const int64_t axis = from_start(call.node.integer("axis"), y.shape.rank());
    int64_t offset = 0;
    for (const Tensor* part : call.inputs) {
        copy_elements(part->shape, y.data.data(), offset, write, part->data.data(), 0, part->shape.strides());
        offset += part->shape[static_cast<int>(axis)] * write[axis];
    }
    return {};
}

Result<Outputs> pad_outputs(const Rule& r) {
    HK_ASSIGN(const int axis, r.axis("axis", r.shape(0)));
    const int64_t before = r.node.integer("before"), after = r.node.integer("after");
    if (before < 0 || after < 0 || before > kMaxElements || after > kMaxElements)
        return r.error("before {} and after {} must not be negative", before, after);
    Shape y = r.shape(0);
    y[axis] += before + after;
    HK_TRY(sizes_ok(r, y.dims()));
    return one(r.kind(0), y);
}

void pad_gradient(Backward& b) {
    const int64_t axis = b.node().integer("axis");
    b.give(0, b.slice(b.dy(), axis, b.node().integer("before"), b.shape(b.x())[static_cast<int>(axis)]));
}

Status run_pad(const Call& call) {
    const Tensor& x = call.in(0);
    Tensor& y = call.out();
    const Strides write = y.shape.strides();
    const int64_t axis = from_start(call.node.integer("axis"), y.shape.rank());
    std::ranges::fill(y.data, call.node.real("value"));
    copy_elements(x.shape, y.data.data(), call.node.integer("before") * write[axis], write, x.data.data(), 0,
                  x.shape.strides());
    return {};
}

Result<Outputs> broadcast_outputs(const Rule& r) {
    HK_TRY(sizes_ok(r, r.node.ints("shape")));
    const Shape to(r.node.ints("shape"));
    const std::optional<Shape> both = broadcast_shapes(r.shape(0), to);
    if (!both || !(*both == to)) return r.error("{} does not broadcast to {}", r.text(0), to.text());
    return one(r.kind(0), to);
}

void broadcast_gradient(Backward& b) { b.give(0, b.dy()); } // summed to x's shape

Status run_broadcast(const Call& call) {
    Tensor& y = call.out();
    copy_elements(y.shape, y.data.data(), 0, y.shape.strides(), call.data(0), 0,
                  broadcast_strides(call.in(0).shape, y.shape));
    return {};
}

void flip_gradient(Backward& b) { b.give(0, b.builder()(Op::flip, {b.dy()}, {{"axis", b.node().integer("axis")}})); }

Status run_flip(const Call& call) {
    const Tensor& x = call.in(0);
    Tensor& y = call.out();
    const int64_t axis = from_start(call.node.integer("axis"), x.shape.rank());
    Strides read = x.shape.strides();
    const int64_t offset = (x.shape[static_cast<int>(axis)] - 1) * read[axis];
    read[axis] = -read[axis];
    copy_elements(y.shape, y.data.data(), 0, y.shape.strides(), x.data.data(), offset, read);
    return {};
}

} // namespace

const OperationRules reshape_rules{reshape_outputs, reshape_gradient, run_same};
const OperationRules transpose_rules{transpose_outputs, transpose_gradient, run_transpose};
const OperationRules slice_rules{slice_outputs, slice_gradient, run_slice};
const OperationRules unslice_rules{unslice_outputs, unslice_gradient, run_unslice};
const OperationRules concat_rules{concat_outputs, concat_gradient, run_concat};
const OperationRules pad_rules{pad_outputs, pad_gradient, run_pad};
const OperationRules broadcast_rules{broadcast_outputs, broadcast_gradient, run_broadcast};
const OperationRules flip_rules{along_axis, flip_gradient, run_flip};

} // namespace hekla::graph
