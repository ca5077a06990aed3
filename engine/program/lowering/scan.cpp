// Scans along an axis (cumsum and the like), and top_k.
#include "program/lowering/common.hpp"

namespace hekla::program {

namespace {

uint32_t scan_of(const graph::Node& node) {
    switch (node.op) {
    case graph::Op::cumsum: return kernels::scan::kSum;
    case graph::Op::cumprod: return kernels::scan::kProduct;
    case graph::Op::cummax: return kernels::scan::kMaximum;
    case graph::Op::logcumsumexp: return kernels::scan::kLogSumExp;
    default: // scan_linear
        return node.inputs.size() > 2 && node.inputs[2] != graph::kNone ? kernels::scan::kLinearFrom
                                                                        : kernels::scan::kLinear;
    }
}

void lower_along_axis(Lowering& lowering, const graph::Node& node) {
    const View x = lowering.contiguous(lowering.view(node.inputs[0]));
    const uint32_t scan = scan_of(node);
    // What a scan does not have is another tensor, so that its address is readable.
    const bool linear = scan == kernels::scan::kLinear || scan == kernels::scan::kLinearFrom;
    const View a = linear ? lowering.contiguous(lowering.view(node.inputs[1])) : x;
    const View initial = scan == kernels::scan::kLinearFrom ? lowering.contiguous(lowering.view(node.inputs[2])) : x;
    const View y = lowering.allocate(x.shape, x.storage, graph::info(node.op).name);
    View indices = y;
    lowering.views[node.outputs[0]] = y;
    if (scan == kernels::scan::kMaximum) {
        indices = lowering.allocate(x.shape, Storage::i32, "cummax indices");
        lowering.views[node.outputs[1]] = indices;
    }
    if (y.elements() == 0) return;
    const auto axis = static_cast<int>(axis_of(node, x.shape));
    int64_t inner = 1;
    for (int d = axis + 1; d < x.shape.rank(); ++d) inner *= x.shape[d];
    const int64_t lines = x.elements() / x.shape[axis];
    Dispatch dispatch;
    dispatch.shader = "scan/scan";
    dispatch.constants = {x.storage == Storage::i32 ? 1u : 0u, node.integer("reverse") != 0 ? 1u : 0u, scan};
    dispatch.record = make_record(kernels::scan::ScanRecord{.x = x,
                                                            .a = a,
                                                            .initial = initial,
                                                            .y = y,
                                                            .indices = indices,
                                                            .count = word(lines),
                                                            .places = word(x.shape[axis]),
                                                            .inner = word(inner)});
    dispatch.groups = elementwise_groups(lines);
    dispatch.bytes = static_cast<double>(x.bytes() + y.bytes());
    if (linear) dispatch.bytes += static_cast<double>(a.bytes());
    if (scan == kernels::scan::kMaximum) dispatch.bytes += static_cast<double>(indices.bytes());
    dispatch.flops = static_cast<double>(x.elements()) * (scan == kernels::scan::kLogSumExp ? 30.0
                                                          : linear                          ? 2.0
                                                                                            : 1.0);
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
    dispatch.bytes = static_cast<double>(x.bytes()) * static_cast<double>(k);
    lowering.append(std::move(dispatch));
}

} // namespace

Status lower_scan(Lowering& lowering, graph::NodeId id) {
    const graph::Node& node = lowering.graph->nodes[id];
    if (node.op == graph::Op::top_k)
        lower_top_k(lowering, node);
    else
        lower_along_axis(lowering, node);
    return {};
}

} // namespace hekla::program
