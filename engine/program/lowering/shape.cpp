// Shape operations: views if strides can express them, otherwise copies.
#include "program/lowering/families.hpp"
#include "program/lowering/loop.hpp"

#include <fmt/format.h>

#include <bit>

namespace hekla::program {

namespace {

using graph::Op;

std::size_t axis_of(const graph::Node& node, const graph::Shape& shape) {
    const int64_t axis = node.integer("axis");
    return static_cast<std::size_t>(axis < 0 ? axis + shape.rank() : axis);
}

// Expresses the same elements with another shape as strides; false if they cannot.
bool reshape_view(const View& x, const graph::Shape& shape, View& out) {
    out = x;
    out.shape = shape;
    if (x.elements() == 0 || x.contiguous()) {
        out.strides = shape.strides();
        return true;
    }
    // Iterate over both shapes from the outermost dimension; contiguous old dimensions can be split again.
    out.strides.fill(0);
    int from = 0;
    int to = 0;
    while (from < x.shape.rank() || to < shape.rank()) {
        if (from < x.shape.rank() && x.shape[from] == 1) {
            ++from;
            continue;
        }
        if (to < shape.rank() && shape[to] == 1) {
            ++to;
            continue;
        }
        if (from >= x.shape.rank() || to >= shape.rank()) return false;
        int64_t old_elements = x.shape[from];
        int64_t new_elements = shape[to];
        int from_end = from + 1;
        int to_end = to + 1;
        while (old_elements != new_elements) {
            if (old_elements < new_elements) {
                const int next = from_end++;
                if (next >= x.shape.rank()) return false;
                if (x.shape[next] == 1) continue;
                int last = next - 1;
                while (x.shape[last] == 1) --last;
                const auto outer = static_cast<std::size_t>(last);
                if (x.strides[outer] != x.strides[static_cast<std::size_t>(next)] * x.shape[next]) return false;
                old_elements *= x.shape[next];
            } else {
                if (to_end >= shape.rank()) return false;
                new_elements *= shape[to_end++];
            }
        }
        int innermost = from_end - 1;
        while (x.shape[innermost] == 1) --innermost;
        int64_t stride = x.strides[static_cast<std::size_t>(innermost)];
        for (int d = to_end - 1; d >= to; --d) {
            out.strides[static_cast<std::size_t>(d)] = stride;
            stride *= shape[d];
        }
        from = from_end;
        to = to_end;
    }
    return true;
}

View transposed(const View& x, const std::vector<int64_t>& permutation) {
    View y = x;
    for (std::size_t d = 0; d < permutation.size(); ++d) {
        const auto source = static_cast<std::size_t>(permutation[d]);
        y.shape[static_cast<int>(d)] = x.shape.dims()[source];
        y.strides[d] = x.strides[source];
    }
    return y;
}

View sliced(const View& x, std::size_t axis, int64_t start, int64_t length, int64_t stride) {
    View y = x;
    y.shape[static_cast<int>(axis)] = length;
    if (length > 0) y.offset = static_cast<uint64_t>(static_cast<int64_t>(x.offset) + start * x.strides[axis]);
    y.strides[axis] = x.strides[axis] * stride;
    return y;
}

View flipped(const View& x, std::size_t axis) {
    View y = x;
    const int64_t length = x.shape.dims()[axis];
    if (length > 0) y.offset = static_cast<uint64_t>(static_cast<int64_t>(x.offset) + (length - 1) * x.strides[axis]);
    y.strides[axis] = -x.strides[axis];
    return y;
}

// Returns y [outer, places, inner], which is `value` except at x's parts along the axis.
View padded(Lowering& lowering, const View& given, std::size_t axis, const graph::Shape& shape, int64_t start,
            int64_t stride, uint32_t value, const char* name) {
    const View y = lowering.allocate(shape, given.storage, name);
    if (y.elements() == 0) return y;
    View x = lowering.contiguous(given);
    if (x.elements() == 0) x = y; // not used: any readable address works
    int64_t inner = 1;
    for (std::size_t d = axis + 1; d < static_cast<std::size_t>(shape.rank()); ++d) inner *= shape.dims()[d];
    const bool none = given.elements() == 0;
    Dispatch dispatch;
    dispatch.shader = "pointwise/pad";
    const int64_t places = shape.dims()[axis];
    const Divisor by_inner = divisor(word(inner)), by_places = divisor(word(places)), by_stride = divisor(word(stride));
    // With no parts, `start` is past all positions and the clamped part index is 0.
    dispatch.record = make_record(kernels::pointwise::PadRecord{.x = x,
                                                                .y = y,
                                                                .count = word(y.elements()),
                                                                .places = word(places),
                                                                .inner = word(inner),
                                                                .parts = none ? 1u : word(given.shape.dims()[axis]),
                                                                .start = none ? word(places) : word(start),
                                                                .stride = word(stride),
                                                                .value = value,
                                                                .inner_factor = by_inner.factor,
                                                                .inner_shift = by_inner.shift,
                                                                .places_factor = by_places.factor,
                                                                .places_shift = by_places.shift,
                                                                .stride_factor = by_stride.factor,
                                                                .stride_shift = by_stride.shift});
    dispatch.groups = elementwise_groups(y.elements());
    if (!none) dispatch.reads(x);
    dispatch.writes(y);
    dispatch.bytes = static_cast<double>(x.bytes() + y.bytes());
    lowering.append(std::move(dispatch));
    return y;
}

View joined(Lowering& lowering, const graph::Node& node, const graph::Shape& shape, std::size_t axis) {
    const View y = lowering.allocate(shape, lowering.view(node.inputs[0]).storage, "concat");
    int64_t start = 0;
    for (const graph::ValueId input : node.inputs) {
        const View& part = lowering.view(input);
        const int64_t length = part.shape.dims()[axis];
        lowering.copy(View(part), sliced(y, axis, start, length, 1));
        start += length;
    }
    return y;
}

} // namespace

Status lower_shape(Lowering& lowering, graph::NodeId id) {
    const graph::Graph& graph = *lowering.graph;
    const graph::Node& node = graph.nodes[id];
    const graph::Shape& shape = graph.shape(node.outputs[0]);
    const View x = lowering.view(node.inputs[0]);
    View y;
    switch (node.op) {
    case Op::reshape:
        if (!reshape_view(x, shape, y) && !reshape_view(lowering.contiguous(x), shape, y))
            return internal_error(fmt::format("reshape of {} to {}", x.shape.text(), shape.text()));
        break;
    case Op::transpose: y = transposed(x, node.ints("permutation")); break;
    case Op::slice:
        y = sliced(x, axis_of(node, x.shape), node.integer("start"), node.integer("length"), node.integer("stride"));
        break;
    case Op::flip: // a copy, so that no other kernel reads with negative strides
        y = lowering.contiguous(flipped(x, axis_of(node, x.shape)));
        break;
    case Op::broadcast: y = broadcast_view(x, shape); break;
    case Op::concat: y = joined(lowering, node, shape, axis_of(node, shape)); break;
    case Op::pad: {
        const bool floating = graph::is_float(graph.kind(node.outputs[0]));
        const double value = node.real("value");
        const uint32_t bits = floating ? std::bit_cast<uint32_t>(static_cast<float>(value))
                                       : static_cast<uint32_t>(static_cast<int32_t>(value));
        y = padded(lowering, x, axis_of(node, shape), shape, node.integer("before"), 1, bits, "pad");
        break;
    }
    case Op::unslice:
        y = padded(lowering, x, axis_of(node, shape), shape, node.integer("start"), node.integer("stride"), 0,
                   "unslice");
        break;
    default: y = x; break; // once, state_read, state_write, site
    }
    lowering.views[node.outputs[0]] = y;
    return {};
}

} // namespace hekla::program
