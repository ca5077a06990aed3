// Shape operations: views if strides can express them, otherwise copies.
#include "program/lowering/common.hpp"
#include "program/lowering/families.hpp"
#include "program/lowering/loop.hpp"

#include <fmt/format.h>

#include <bit>

namespace hekla::program {

namespace {

using graph::Op;

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
    dispatch.bytes = static_cast<double>(x.bytes() + y.bytes());
    lowering.append(std::move(dispatch));
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
    case Op::reshape: {
        auto same = reshaped(x, shape);
        if (!same) same = reshaped(lowering.contiguous(x), shape);
        if (!same) return internal_error(fmt::format("reshape of {} to {}", x.shape.text(), shape.text()));
        y = *same;
        break;
    }
    case Op::transpose: y = transposed(x, node.ints("permutation")); break;
    case Op::slice:
        y = sliced(x, axis_of(node, x.shape), node.integer("start"), node.integer("length"), node.integer("stride"));
        break;
    case Op::flip: // a copy, so that no other kernel reads with negative strides
        y = lowering.contiguous(flipped(x, axis_of(node, x.shape)));
        break;
    case Op::broadcast: y = broadcast_view(x, shape); break;
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
    case Op::incoming_gradient: // nothing comes in the forward pass
        y = lowering.allocate(shape, Storage::f32, "incoming gradient");
        lowering.fill_zero(y);
        break;
    default: y = x; break; // once, state_read, state_write, for_parameters, tap, site, with_gradient
    }
    lowering.views[node.outputs[0]] = y;
    return {};
}

} // namespace hekla::program
