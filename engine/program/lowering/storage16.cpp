#include "program/lowering/storage16.hpp"

#include "program/lowering/half.hpp"

#include <fmt/format.h>

namespace hekla::program {

namespace {

using graph::Op;

bool makes_view(Op op) {
    switch (op) {
    case Op::reshape:
    case Op::transpose:
    case Op::slice:
    case Op::flip:
    case Op::broadcast:
    case Op::site: return true;
    default: return false;
    }
}

} // namespace

bool reads_16_bits(const graph::Node& node, std::size_t input) {
    const Op op = node.op;
    if (op == Op::matmul || op == Op::linear) return input < 2; // a bias is read in 32 bits
    if (op == Op::embedding) return input == 0;
    if (op == Op::linear_cross_entropy) return input < 2;
    if (op == Op::linear_cross_entropy_gradient || op == Op::linear_cross_entropy_with_gradient)
        return input == 1 || input == 2;
    if (op == Op::own) return !node.own->operation->declaration().glsl.empty(); // accessors support it
    return makes_view(op);
}

std::vector<bool> readable_as_16_bit(const graph::Graph& graph) {
    std::vector<bool> readable(graph.values.size(), true);
    for (graph::NodeId id = static_cast<graph::NodeId>(graph.nodes.size()); id-- > 0;) {
        const graph::Node& node = graph.nodes[id];
        for (std::size_t i = 0; i < node.inputs.size(); ++i) {
            if (node.inputs[i] == graph::kNone) continue;
            if (!reads_16_bits(node, i) || (makes_view(node.op) && !readable[node.outputs[0]]))
                readable[node.inputs[i]] = false;
        }
    }
    for (graph::ValueId value = 1; value < graph.values.size(); ++value)
        if (graph.kind(value) == graph::Kind::int32) readable[value] = false;
    return readable;
}

Status check_storage(const Limits& limits, Storage storage) {
    if (bytes_of(storage) == 4 || limits.storage16) return {};
    return unsupported(fmt::format("{} storage is asked for, and this device has no 16-bit storage "
                                   "(storageBuffer16BitAccess): use f32",
                                   storage_name(storage)));
}

} // namespace hekla::program
