#include "program/lowering/families.hpp"
#include "program/lowering/loop.hpp"
#include "program/lowering/records.hpp"

namespace hekla::program {

Status lower_rotary(Lowering& lowering, graph::NodeId id) {
    const graph::Node& node = lowering.graph->nodes[id];
    const View x = lowering.view(node.inputs[0]);
    const View cosine = lowering.contiguous(View(lowering.view(node.inputs[1])));
    const View sine = lowering.contiguous(View(lowering.view(node.inputs[2])));
    const bool given = node.inputs[3] != graph::kNone;
    const View positions = given ? lowering.contiguous(View(lowering.view(node.inputs[3]))) : cosine;
    const View y = lowering.allocate(x.shape, Storage::f32, "rotary");
    lowering.views[node.outputs[0]] = y;
    if (y.elements() == 0) return {};
    if (cosine.elements() == 0) return unsupported("rotary: tables without rows or columns");
    Dispatch dispatch;
    dispatch.shader = "position/rotary";
    dispatch.constants = {node.integer("interleaved") != 0 ? 1u : 0u, node.integer("inverse") != 0 ? 1u : 0u,
                          given ? 1u : 0u};
    kernels::position::RotaryRecord record{.x = x,
                                           .cosine = cosine,
                                           .sine = sine,
                                           .positions = positions,
                                           .y = y,
                                           .count = word(y.elements()),
                                           .heads = word(x.shape[1]),
                                           .tokens = word(x.shape[2]),
                                           .width = word(x.shape[3]),
                                           .half_turned = word(cosine.shape[1]),
                                           .rows = word(cosine.shape[0])};
    for (std::size_t d = 0; d < 4; ++d) record.x_strides[d] = static_cast<int32_t>(x.strides[d]);
    dispatch.record = make_record(record);
    dispatch.groups = elementwise_groups(y.elements());
    dispatch.reads(x);
    dispatch.reads(cosine);
    dispatch.reads(sine);
    if (given) dispatch.reads(positions);
    dispatch.writes(y);
    dispatch.bytes = 3.0 * static_cast<double>(y.bytes());
    dispatch.flops = 3.0 * static_cast<double>(y.elements());
    lowering.append(std::move(dispatch));
    return {};
}

} // namespace hekla::program
