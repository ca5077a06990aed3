#include "graph/passes/cut_frozen.hpp"

#include "graph/rewrite.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::graph {
namespace {

// What a node's outputs depend on.
struct Origin {
    bool fixed = false;  // only fields, constants and frozen parameters, and nothing random
    bool fields = false; // at least one field
    bool frozen = false; // at least one frozen parameter
};

std::vector<Origin> origins(const Graph& graph, const std::set<std::string, std::less<>>& frozen) {
    std::vector<Origin> origin(graph.nodes.size());
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
        const Node& node = graph.nodes[id];
        Origin& o = origin[id];
        if (node.op == Op::parameter) {
            o.fixed = o.frozen = frozen.contains(node.text("name"));
            continue;
        }
        o.fixed = node.op != Op::step_scalar && !is_random(node);
        o.fields = node.op == Op::input;
        for (const ValueId input : node.inputs) {
            if (input == kNone) continue;
            const Origin& from = origin[graph.value(input).node];
            o.fixed = o.fixed && from.fixed;
            o.fields = o.fields || from.fields;
            o.frozen = o.frozen || from.frozen;
        }
    }
    return origin;
}

// Whether it costs less to compute the node's outputs again than to keep them.
bool is_cheap(Op op) {
    switch (op) {
    case Op::layer_norm:
    case Op::rms_norm:
    case Op::reshape:
    case Op::transpose:
    case Op::slice:
    case Op::broadcast: return true;
    default: return is_pointwise(op);
    }
}

double multiply_adds(const Graph& graph) {
    double sum = 0.0;
    for (const Node& node : graph.nodes) {
        if (node.outputs.empty()) continue;
        const auto elements = static_cast<double>(graph.shape(node.outputs[0]).elements());
        const auto size = [&](std::size_t input, int from_end) {
            const Shape& shape = graph.shape(node.inputs[input]);
            return static_cast<double>(shape[static_cast<int>(shape.rank()) - from_end]);
        };
        switch (node.op) {
        case Op::linear:
        case Op::linear_cross_entropy:
            sum +=
                static_cast<double>(graph.shape(node.inputs[0]).elements() * graph.shape(node.inputs[1]).elements()) /
                size(0, 1);
            break;
        case Op::matmul: sum += elements * size(0, node.integer("transpose_a") != 0 ? 2 : 1); break;
        case Op::attention: sum += elements * size(1, 2) * 2.0; break;
        case Op::gru:
        case Op::lstm: sum += elements * (node.op == Op::gru ? 3.0 : 4.0) * size(0, 1) * 2.0; break;
        default: break;
        }
    }
    return sum;
}

// The values that a graph's other nodes, losses, metrics and outputs read of the nodes in `kept`.
std::set<ValueId> border_of(const Graph& graph, const std::vector<bool>& kept) {
    std::set<ValueId> border;
    const auto read = [&](ValueId value) {
        if (value != kNone && kept[graph.value(value).node]) border.insert(value);
    };
    for (NodeId id = 0; id < graph.nodes.size(); ++id)
        if (!kept[id])
            for (const ValueId input : graph.nodes[id].inputs) read(input);
    for (const LossTerm& loss : graph.losses) read(loss.sum), read(loss.count);
    for (const Metric& metric : graph.metrics) read(metric.sum), read(metric.count);
    for (const auto& [name, value] : graph.outputs) read(value);
    return border;
}

// Takes cheap nodes out of `kept` whose outputs are in the border and whose inputs are there too.
void compute_cheap_again(const Graph& graph, std::vector<bool>& kept) {
    const std::set<ValueId> border = border_of(graph, kept);
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
        const Node& node = graph.nodes[id];
        if (!kept[id] || !is_cheap(node.op)) continue;
        const bool read = std::ranges::any_of(node.outputs, [&](ValueId value) { return border.contains(value); });
        const bool available = std::ranges::all_of(node.inputs, [&](ValueId input) {
            return input == kNone || !kept[graph.value(input).node] || border.contains(input);
        });
        if (read && available) kept[id] = false;
    }
}

} // namespace

Result<std::optional<FrozenCut>> cut_frozen(const Graph& graph, const std::set<std::string, std::less<>>& frozen,
                                            int64_t batch) {
    const std::vector<Origin> origin = origins(graph, frozen);
    std::vector<bool> kept(graph.nodes.size());
    for (NodeId id = 0; id < graph.nodes.size(); ++id)
        kept[id] = origin[id].fixed && origin[id].fields && origin[id].frozen;
    compute_cheap_again(graph, kept);
    const std::set<ValueId> border = border_of(graph, kept);
    if (border.empty()) return std::optional<FrozenCut>();
    for (const ValueId value : border)
        if (graph.shape(value).rank() == 0 || graph.shape(value)[0] != batch) return std::optional<FrozenCut>();

    FrozenCut cut;
    Graph below = graph;
    below.losses.clear();
    below.metrics.clear();
    below.outputs.clear();
    std::map<ValueId, std::string> names;
    for (const ValueId value : border) {
        const std::string name = fmt::format("feature.{}", cut.features.size());
        names.emplace(value, name);
        below.outputs.emplace(name, value);
        cut.features.push_back(name);
    }
    HK_ASSIGN(cut.below, prune(below));
    HK_ASSIGN(cut.above, rewrite(
                             graph,
                             [&](Builder& builder, const Node& node, NodeId id, std::vector<ValueId>& outputs) {
                                 const auto is_border = [&](ValueId value) { return names.contains(value); };
                                 if (std::ranges::none_of(graph.nodes[id].outputs, is_border)) return false;
                                 copy_node(builder, node, outputs); // for outputs that are not features; pruned if none
                                 for (std::size_t i = 0; i < outputs.size(); ++i) {
                                     const ValueId old = graph.nodes[id].outputs[i];
                                     if (is_border(old))
                                         outputs[i] = builder.input(names.at(old), graph.kind(old), graph.shape(old));
                                 }
                                 return true;
                             },
                             true));
    const double whole = multiply_adds(graph);
    cut.share = whole > 0.0 ? multiply_adds(cut.below) / whole : 0.0;
    return std::optional<FrozenCut>(std::move(cut));
}

} // namespace hekla::graph
