#include "program/lowering/attention.hpp"
#include "program/lowering/families.hpp"
#include "program/lowering/loop.hpp"
#include "program/lowering/records.hpp"

namespace hekla::program {
namespace {

// Fewer elements than these stay with the kernel that chains of small dispatches know.
constexpr int64_t kLeastByRows = 16384;

bool by_rows(const Lowering& lowering, const graph::Node& node, const View& x) {
    return lowering.limits.uniform_loads && node.integer("interleaved") == 0 && x.storage == Storage::f32 &&
           x.strides[3] == 1 && x.shape.elements() >= kLeastByRows;
}

} // namespace

Status lower_rotary(Lowering& lowering, graph::NodeId id) {
    const graph::Node& node = lowering.graph->nodes[id];
    const View x = lowering.view(node.inputs[0]);
    const View cosine = lowering.contiguous(View(lowering.view(node.inputs[1])));
    const View sine = lowering.contiguous(View(lowering.view(node.inputs[2])));
    const bool given = node.inputs[3] != graph::kNone;
    const View positions = given ? lowering.contiguous(View(lowering.view(node.inputs[3]))) : cosine;
    // The product whose gradient follows that of the rotation reads its rows as they are.
    const View y = node.integer("inverse") != 0 ? heads_inside(lowering, x.shape[0], x.shape[1], x.shape[2], x.shape[3],
                                                               Storage::f32, "rotary's gradient")
                                                : lowering.allocate(x.shape, Storage::f32, "rotary");
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
    if (by_rows(lowering, node, x)) {
        const uint32_t lanes = lowering.limits.subgroup_size;
        dispatch.shader = "position/rotary_rows";
        dispatch.constants = {lanes, dispatch.constants[1], dispatch.constants[2],
                              x.shape[3] > 2 * cosine.shape[1] ? 1u : 0u};
        dispatch.subgroup_size = lanes;
        dispatch.groups = row_groups(lowering.limits, y.elements() / x.shape[3]);
    }
    dispatch.bytes = 3.0 * static_cast<double>(y.bytes());
    dispatch.flops = 3.0 * static_cast<double>(y.elements());
    lowering.append(std::move(dispatch));
    return {};
}

} // namespace hekla::program
