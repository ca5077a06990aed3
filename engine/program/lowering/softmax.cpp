// softmax, log_softmax and softmax's gradient along any axis: other axes than the last are moved there by a view, which
// costs a copy of x but not of y.
#include "program/lowering/common.hpp"

namespace hekla::program {

namespace {

using graph::Op;

View axis_last(const View& view, int axis) {
    View out = view;
    const int rank = view.shape.rank();
    std::swap(out.shape[axis], out.shape[rank - 1]);
    std::swap(out.strides[static_cast<std::size_t>(axis)], out.strides[static_cast<std::size_t>(rank - 1)]);
    return out;
}

} // namespace

Status lower_softmax(Lowering& lowering, graph::NodeId id) {
    const graph::Graph& graph = *lowering.graph;
    const graph::Node& node = graph.nodes[id];
    const graph::Shape& shape = graph.shape(node.outputs[0]);
    const int rank = shape.rank();
    int axis = static_cast<int>(node.integer("axis"));
    if (axis < 0) axis += rank;
    const auto input = [&](std::size_t i) {
        const View& view = lowering.view(node.inputs[i]);
        return rank == 0 ? view : axis_last(view, axis);
    };
    const bool gradient = node.op == Op::softmax_gradient;
    const View first = input(0);
    const View y = lowering.allocate(first.shape, Storage::f32, graph::info(node.op).name);
    lowering.views[node.outputs[0]] = rank == 0 ? y : axis_last(y, axis);
    if (y.elements() == 0) return {};
    const Rows x = as_rows(lowering, first);
    const Rows second = gradient ? as_rows(lowering, input(1)) : Rows{};

    const uint32_t w = gradient ? load_width(lowering, x.width, {&x, &second}) : load_width(lowering, x.width, {&x});
    Dispatch dispatch = subgroup_dispatch(lowering, gradient ? "softmax/gradient" : "softmax/forward", {w});
    if (!gradient) dispatch.constants.push_back(node.op == Op::log_softmax ? 1u : 0u);
    dispatch.constants.push_back(held_parts(lowering, x.width, w, gradient ? 2 : 1));
    set_variant(dispatch, w, false);
    if (gradient)
        dispatch.record = make_record(kernels::softmax::GradientRecord{.dy = x.view,
                                                                       .y = second.view,
                                                                       .dx = y,
                                                                       .rows = word(x.rows),
                                                                       .width = word(x.width),
                                                                       .dy_stride = word(x.stride),
                                                                       .y_stride = word(second.stride)});
    else
        dispatch.record = make_record(kernels::softmax::ForwardRecord{
            .x = x.view, .y = y, .rows = word(x.rows), .width = word(x.width), .stride = word(x.stride)});
    dispatch.groups = row_groups(lowering.limits, x.rows);
    dispatch.bytes = (gradient ? 3.0 : 2.0) * static_cast<double>(y.bytes());
    dispatch.flops = 10.0 * static_cast<double>(y.elements());
    lowering.append(std::move(dispatch));
    return {};
}

} // namespace hekla::program
