// cumsum and top_k.
#include "program/lowering/families.hpp"
#include "program/lowering/loop.hpp"

namespace hekla::program {

namespace {

void lower_cumsum(Lowering& lowering, const graph::Node& node) {
    const View x = lowering.contiguous(lowering.view(node.inputs[0]));
    const View y = lowering.allocate(x.shape, x.storage, "cumsum");
    lowering.views[node.outputs[0]] = y;
    if (y.elements() == 0) return;
    const int64_t given = node.integer("axis");
    const auto axis = static_cast<int>(given < 0 ? given + x.shape.rank() : given);
    int64_t inner = 1;
    for (int d = axis + 1; d < x.shape.rank(); ++d) inner *= x.shape[d];
    const int64_t lines = x.elements() / x.shape[axis];
    Dispatch dispatch;
    dispatch.shader = "scan/cumsum";
    dispatch.constants = {x.storage == Storage::i32 ? 1u : 0u, node.integer("reverse") != 0 ? 1u : 0u};
    dispatch.record = make_record(kernels::scan::CumsumRecord{
        .x = x, .y = y, .count = word(lines), .places = word(x.shape[axis]), .inner = word(inner)});
    dispatch.groups = elementwise_groups(lines);
    dispatch.reads(x);
    dispatch.writes(y);
    dispatch.bytes = static_cast<double>(x.bytes() + y.bytes());
    dispatch.flops = static_cast<double>(x.elements());
    lowering.append(std::move(dispatch));
}

void lower_top_k(Lowering& lowering, const graph::Node& node) {
    const View x = lowering.contiguous(lowering.view(node.inputs[0]));
    const graph::Shape& shape = lowering.graph->shape(node.outputs[0]);
    const View values = lowering.allocate(shape, Storage::f32, "top_k values");
    const View indices = lowering.allocate(shape, Storage::i32, "top_k indices");
    lowering.views[node.outputs[0]] = values;
    lowering.views[node.outputs[1]] = indices;
    if (values.elements() == 0) return;
    const int64_t width = x.shape[-1];
    const int64_t k = shape[-1];
    const int64_t rows = x.elements() / width;
    Dispatch dispatch;
    dispatch.shader = "scan/top_k";
    dispatch.record = make_record(kernels::scan::TopKRecord{
        .x = x, .values = values, .indices = indices, .count = word(rows), .width = word(width), .k = word(k)});
    dispatch.groups = elementwise_groups(rows);
    dispatch.reads(x);
    dispatch.writes(values);
    dispatch.writes(indices);
    dispatch.bytes = static_cast<double>(x.bytes()) * static_cast<double>(k);
    lowering.append(std::move(dispatch));
}

} // namespace

Status lower_scan(Lowering& lowering, graph::NodeId id) {
    const graph::Node& node = lowering.graph->nodes[id];
    if (node.op == graph::Op::cumsum)
        lower_cumsum(lowering, node);
    else
        lower_top_k(lowering, node);
    return {};
}

} // namespace hekla::program
