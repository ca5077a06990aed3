#include "program/lowering/storage16.hpp"

#include "graph/operations/buffer_update.hpp"
#include "graph/output.hpp"
#include "graph/passes/fuse.hpp"
#include "program/lowering/half.hpp"
#include "program/lowering/pointwise.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::program {

using graph::Op;

bool makes_view(Op op) {
    switch (op) {
    case Op::reshape:
    case Op::transpose:
    case Op::slice:
    case Op::flip:
    case Op::broadcast:
    case Op::tap:
    case Op::site:
    case Op::with_gradient: return true;
    default: return false;
    }
}

bool is_factor_of_product(const graph::Node& node, std::size_t input) {
    switch (node.op) {
    case Op::matmul:
    case Op::linear:
    case Op::linear_cross_entropy: return input < 2; // a bias is read in 32 bits
    case Op::linear_cross_entropy_gradient:
    case Op::linear_cross_entropy_with_gradient: return input == 1 || input == 2;
    default: return false;
    }
}

namespace {

bool is_factor(const graph::Node& node, std::size_t input) {
    const Op op = node.op;
    if (op == Op::embedding) return input == 0;
    if (is_factor_of_product(node, input)) return true;
    return op == Op::own && !node.own->operation->declaration().glsl.empty(); // accessors support it
}

// Returns by value whether all readers, also through views, satisfy `reads`. Nodes that are not `counted` do not read.
template<class Reads, class IsView, class Counted>
std::vector<bool> read_only_by(const graph::Graph& graph, Reads&& reads, IsView&& is_view, Counted&& counted) {
    std::vector<bool> readable(graph.values.size(), true);
    for (const auto& [name, value] : graph.outputs)
        if (graph::output_of(graph::OutputKind::gradient, name) ||
            graph::output_of(graph::OutputKind::buffer_update, name))
            readable[value] = false; // gradients of parameters and updates of buffers are float32
    for (graph::NodeId id = static_cast<graph::NodeId>(graph.nodes.size()); id-- > 0;) {
        const graph::Node& node = graph.nodes[id];
        if (!counted(id)) continue;
        const bool view = is_view(node);
        for (std::size_t i = 0; i < node.inputs.size(); ++i)
            if (node.inputs[i] != graph::kNone && !(view ? readable[node.outputs[0]] : reads(node, i)))
                readable[node.inputs[i]] = false;
    }
    for (graph::ValueId value = 1; value < graph.values.size(); ++value)
        if (graph.kind(value) == graph::Kind::int32) readable[value] = false;
    return readable;
}

// Whether the kernel of a product can write 16 bits. Its values may also be outputs.
bool is_product(Op op) { return op == Op::matmul || op == Op::linear; }

// Whether another kernel can write 16 bits. Sums of pointwise operations stay in float32: they are the residual stream
// and its gradients.
bool writes_16_bits(const graph::Graph& graph, graph::ValueId value) {
    const graph::Node& node = graph.producer(value);
    switch (node.op) {
    case Op::attention: return value == node.outputs[0]; // not rows' statistics
    case Op::attention_gradient: return std::ranges::find(node.outputs, value) - node.outputs.begin() < 3; // q, k, v
    case Op::layer_norm:
    case Op::rms_norm:
    case Op::mul:
    case Op::relu:
    case Op::gelu:
    case Op::gelu_gradient:
    case Op::silu:
    case Op::tanh:
    case Op::sigmoid: return true;
    default: return false;
    }
}

} // namespace

namespace {

// A concat's inputs and its result are all stored in 16 bits, or none is.
void match_parts_of_concats(const graph::Graph& graph, const std::vector<bool>& needed, std::vector<bool>& stored) {
    const auto tensor_of = [&](graph::ValueId value) { // of which it is a view
        while (makes_view(graph.producer(value).op) || is_same(graph, graph.producer(value)))
            value = graph.producer(value).inputs[0];
        return value;
    };
    for (bool changed = true; changed;) {
        changed = false;
        for (graph::NodeId id = 0; id < graph.nodes.size(); ++id) {
            const graph::Node& node = graph.nodes[id];
            if (node.op != Op::concat || !needed[id]) continue;
            bool all = stored[node.outputs[0]];
            for (const graph::ValueId input : node.inputs) all = all && stored[tensor_of(input)];
            if (all) continue;
            const auto clear = [&](graph::ValueId value) {
                changed = changed || stored[value];
                stored[value] = false;
            };
            clear(node.outputs[0]);
            for (const graph::ValueId input : node.inputs) clear(tensor_of(input));
        }
    }
}

} // namespace

bool reads_16_bits(const graph::Graph& graph, const graph::Node& node, std::size_t input) {
    if (is_factor(node, input) || makes_view(node.op) || is_same(graph, node)) return true;
    switch (node.op) {
    case Op::concat: return true;                                // if all its inputs are, below
    case Op::attention: return input < 3;                        // q, k and v
    case Op::attention_gradient: return input < 6 && input != 2; // dy, y, not the statistics of rows, q, k and v
    case Op::layer_norm_gradient:
    case Op::rms_norm_gradient:
    case Op::sum:
    case Op::mean: return input == 0;
    case Op::add: // of the residual stream
    case Op::sub:
    case Op::dropout: return false;
    default: return graph::is_pointwise(node.op);
    }
}

std::vector<bool> factors_only(const graph::Graph& graph) {
    return read_only_by(
        graph, is_factor, [](const graph::Node& node) { return makes_view(node.op); },
        [](graph::NodeId) { return true; });
}

std::vector<bool> stored_in_16_bits(const graph::Graph& graph, const std::vector<bool>& needed) {
    std::vector<bool> stored = read_only_by(
        graph, [&](const graph::Node& node, std::size_t input) { return reads_16_bits(graph, node, input); },
        [&](const graph::Node& node) { return makes_view(node.op) || is_same(graph, node) || node.op == Op::concat; },
        [&](graph::NodeId id) { return needed[id]; });
    std::vector<std::size_t> group_of(graph.nodes.size(), 0);
    const graph::Fusion fusion = graph::fuse(graph);
    for (std::size_t g = 0; g < fusion.groups.size(); ++g)
        for (const graph::NodeId id : fusion.groups[g].nodes) group_of[id] = g;
    std::vector<int> readers(graph.values.size(), 0);
    std::vector<bool> in_registers(graph.values.size(), false), kept(graph.values.size(), false);
    for (graph::NodeId id = 0; id < graph.nodes.size(); ++id) {
        if (!needed[id]) continue;
        for (const graph::ValueId input : graph.nodes[id].inputs) {
            if (input == graph::kNone) continue;
            ++readers[input];
            // A pointwise group reads its own values from registers, unrounded, and a product's epilogue the product.
            const graph::NodeId producer = graph.value(input).node;
            const Op op = graph.nodes[producer].op;
            if (graph::is_pointwise(op) && group_of[producer] == group_of[id]) in_registers[input] = true;
            const graph::Node& node = graph.nodes[id];
            const bool fused = (graph::is_pointwise(node.op) && node.inputs.size() == 1) ||
                               (node.op == Op::gelu_gradient && input == node.inputs[0]);
            if (is_product(op) && fused)
                in_registers[input] = readers[input] == 1;
            else if (is_product(op))
                in_registers[input] = false;
        }
    }
    for (const auto& [name, value] : graph.outputs) kept[value] = true;
    for (graph::ValueId value = 1; value < graph.values.size(); ++value) {
        const Op op = graph.producer(value).op;
        if (op == Op::concat && readers[value] > 0 && !kept[value]) continue; // after the others, below
        const bool written = is_product(op) || (writes_16_bits(graph, value) && readers[value] > 0 && !kept[value]);
        if (!written || in_registers[value] || graph.kind(value) != graph::Kind::float_) stored[value] = false;
    }
    match_parts_of_concats(graph, needed, stored);
    return stored;
}

bool read_as_factor(const Lowering& lowering, graph::ValueId value) {
    if (bytes_of(lowering.options.precision) == 4) return false;
    const graph::Graph& graph = *lowering.graph;
    for (graph::NodeId id = graph.value(value).node + 1; id < graph.nodes.size(); ++id) {
        if (!lowering.needed[id]) continue;
        const graph::Node& node = graph.nodes[id];
        for (std::size_t i = 0; i < node.inputs.size(); ++i) {
            if (node.inputs[i] != value) continue;
            if (is_factor_of_product(node, i) && graph.kind(value) == graph::Kind::float_) return true;
            if (makes_view(node.op) && read_as_factor(lowering, node.outputs[0])) return true;
        }
    }
    return false;
}

Status check_storage(const Limits& limits, Storage storage) {
    if (bytes_of(storage) == 4 || limits.storage16) return {};
    return unsupported(fmt::format("{} storage is asked for, and this device has no 16-bit storage "
                                   "(storageBuffer16BitAccess): use f32",
                                   storage_name(storage)));
}

} // namespace hekla::program
