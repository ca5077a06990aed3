#include "program/lowering/epilogue.hpp"

#include "program/lowering/storage16.hpp"

#include <algorithm>

namespace hekla::program {

namespace {

using graph::Op;

// Largest number of rows for which a CPU's kernels fuse an activation: their tiles are unrolled, so the code of a large
// one would contain the activation hundreds of times, to save a dispatch that costs almost nothing compared with the
// product.
constexpr int64_t kFewRows = 8;

Activation activation_of(const graph::Node& node) {
    if (node.op == Op::relu) return Activation::relu;
    if (node.op == Op::gelu) return node.integer("tanh_approximation") != 0 ? Activation::gelu_tanh : Activation::gelu;
    return Activation::none;
}

} // namespace

void FusedEpilogues::add(graph::NodeId end, const FusedEpilogue& epilogue, bool at_node) {
    positions_[at_node ? epilogue.node : end] = epilogue;
    nodes_.insert(epilogue.node);
    nodes_.insert(end);
}

graph::NodeId FusedEpilogues::position_of(graph::NodeId node) const {
    const auto it = std::ranges::find_if(positions_, [&](const auto& entry) { return entry.second.node == node; });
    return it == positions_.end() ? node : it->first;
}

const FusedEpilogue* FusedEpilogues::lowered_at(graph::NodeId node) const {
    const auto it = positions_.find(node);
    return it == positions_.end() ? nullptr : &it->second;
}

FusedEpilogues find_epilogues(const Lowering& lowering, const std::vector<graph::ValueId>& kept,
                              const PointwiseGroups& groups) {
    const graph::Graph& graph = *lowering.graph;
    const std::vector<bool>& needed = lowering.needed;
    const Limits& limits = lowering.limits;
    FusedEpilogues result;
    std::vector<std::vector<graph::NodeId>> readers(graph.values.size());
    for (graph::NodeId n = 0; n < graph.nodes.size(); ++n)
        if (needed[n])
            for (const graph::ValueId input : graph.nodes[n].inputs)
                if (input != graph::kNone) readers[input].push_back(n);
    std::vector<std::size_t> reads(graph.values.size(), 0);
    for (graph::ValueId value = 0; value < reads.size(); ++value) reads[value] = readers[value].size();
    for (const graph::ValueId value : kept) ++reads[value];
    // Nothing may read a node's other results, or its own where that is stored too, before the node is lowered.
    const auto read_before = [&](const graph::Node& node, graph::NodeId end) {
        for (graph::NodeId n = graph.value(node.outputs[0]).node + 1; n < end; ++n)
            for (const graph::ValueId input : graph.nodes[n].inputs)
                if (needed[n] && std::ranges::find(node.outputs, input) != node.outputs.end()) return true;
        return false;
    };

    // Whether the value is computed when the node's turn comes: a node with an epilogue may be lowered after others.
    const auto computed_before = [&](graph::ValueId value, graph::NodeId node) {
        return graph.value(value).node < node && result.position_of(graph.value(value).node) < node;
    };
    // Finds gelu's result, if gradients from `node` on read it.
    const auto activation_to_recompute = [&](const graph::Node& gradient, graph::NodeId node) {
        for (const graph::NodeId n : readers[gradient.inputs[1]]) {
            const graph::Node& gelu = graph.nodes[n];
            if (gelu.op != Op::gelu || gelu.integer("tanh_approximation") != gradient.integer("tanh_approximation"))
                continue;
            const graph::ValueId value = gelu.outputs[0];
            if (std::ranges::any_of(readers[value], [&](graph::NodeId id) { return id > node; }) &&
                std::ranges::find(kept, value) == kept.end() && computed_before(value, node))
                return value;
        }
        return graph::kNone;
    };

    for (const PointwiseGroup& group : groups.all()) {
        if (group.nodes.size() != 1) continue;
        const graph::Node& end = graph.nodes[group.nodes[0]];
        const graph::ValueId output = end.outputs[0];
        const graph::Shape& shape = graph.shape(output);
        if (shape.rank() == 0 || shape.elements() == 0) continue;
        const auto is_linear = [&](graph::ValueId value) {
            const graph::Node& node = graph.producer(value);
            return node.op == Op::linear && graph.shape(value) == shape && graph.shape(node.inputs[0])[-1] > 0;
        };
        const auto is_product = [&](graph::ValueId value) { return is_linear(value) && reads[value] == 1; };
        // Kernels for CPUs have no second tensor like C.
        const auto is_like_output = [&](graph::ValueId value) {
            return !limits.cpu && !limits.uniform_loads && graph.shape(value) == shape &&
                   !makes_view(graph.producer(value).op) && graph.kind(value) == graph::Kind::float_ &&
                   lowering.storage_of(value) == lowering.storage_of(output);
        };
        FusedEpilogue epilogue;
        epilogue.output = output;
        epilogue.activation = activation_of(end);
        graph::ValueId product = graph::kNone;
        if (epilogue.activation != Activation::none) {
            if (limits.cpu && shape.elements() / shape[-1] > kFewRows) continue;
            const graph::ValueId before = end.inputs[0];
            if (is_product(before)) {
                product = before;
            } else if (is_linear(before) && is_like_output(before) &&
                       !read_before(graph.producer(before), group.nodes[0])) {
                product = before;
                epilogue.stores_before = true;
            }
        } else if (end.op == Op::gelu_gradient) {
            if (!is_product(end.inputs[0]) || !is_like_output(end.inputs[1])) continue;
            product = end.inputs[0];
            epilogue.argument = end.inputs[1];
            epilogue.activation =
                end.integer("tanh_approximation") != 0 ? Activation::gelu_tanh_gradient : Activation::gelu_gradient;
        } else if (end.op == Op::add && graph.shape(end.inputs[0]) == graph.shape(end.inputs[1])) {
            // Of two nodes, fuse into the later one, because the other is computed by then.
            const auto adds = [&](graph::ValueId value) {
                const graph::Node& node = graph.producer(value);
                const bool of_norm = node.op == Op::layer_norm_gradient || node.op == Op::rms_norm_gradient;
                return is_product(value) ||
                       (of_norm && value == node.outputs[0] && reads[value] == 1 && !read_before(node, group.nodes[0]));
            };
            for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
                if (!adds(end.inputs[i]) || (product != graph::kNone && end.inputs[i] < product)) continue;
                product = end.inputs[i];
                epilogue.residual = end.inputs[1 - i];
            }
        }
        if (product == graph::kNone) continue;
        epilogue.node = graph.value(product).node;
        // The gradient of gelu is computed at once: gradients of weights after it read the activation computed again.
        const bool at_node = epilogue.argument != graph::kNone && computed_before(epilogue.argument, epilogue.node);
        if (at_node) {
            const graph::ValueId activation = activation_to_recompute(end, epilogue.node);
            if (activation != graph::kNone && is_like_output(activation)) epilogue.recomputed = activation;
        }
        result.add(group.nodes[0], epilogue, at_node);
    }
    return result;
}

} // namespace hekla::program
