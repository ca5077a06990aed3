#include "graph/recompute.hpp"

#include "graph/rewrite.hpp"

#include <algorithm>

namespace hekla::graph {
namespace {

// Returns which nodes the losses, metrics or outputs other than gradients need.
std::vector<bool> forward_nodes(const Graph& graph) {
    std::vector<bool> forward(graph.nodes.size(), false);
    const auto need = [&](ValueId value) {
        if (value != kNone) forward[graph.value(value).node] = true;
    };
    for (const auto& [name, value] : graph.outputs)
        if (!name.starts_with("grad.")) need(value);
    for (const LossTerm& loss : graph.losses) need(loss.sum), need(loss.count);
    for (const Metric& metric : graph.metrics) need(metric.sum), need(metric.count);
    for (std::size_t id = graph.nodes.size(); id-- > 0;)
        if (forward[id])
            for (const ValueId input : graph.nodes[id].inputs) need(input);
    return forward;
}

class Recomputer {
public:
    explicit Recomputer(const Graph& graph)
        : graph_(graph), forward_(forward_nodes(graph)), dropped_(graph.values.size(), false),
          again_(graph.values.size(), kNone), now_(graph.values.size(), kNone) {
        // A value is dropped if only forward nodes of its own region read it and it is not an output.
        for (NodeId id = 0; id < graph.nodes.size(); ++id) {
            const Node& node = graph.nodes[id];
            if (!forward_[id] || node.region == 0 || is_leaf(node.op)) continue;
            for (const ValueId output : node.outputs) dropped_[output] = true;
        }
        for (NodeId id = 0; id < graph.nodes.size(); ++id)
            for (const ValueId input : graph.nodes[id].inputs)
                if (forward_[id] && graph.nodes[id].region != graph.producer(input).region) dropped_[input] = false;
        for (const auto& [name, value] : graph.outputs) dropped_[value] = false;
        for (const LossTerm& loss : graph.losses) dropped_[loss.sum] = dropped_[loss.count] = false;
        for (const Metric& metric : graph.metrics) dropped_[metric.sum] = dropped_[metric.count] = false;
        // A node that keeps one output keeps all of them: the others are statistics, which are small compared with
        // recomputing them.
        for (const Node& node : graph.nodes)
            if (std::ranges::any_of(node.outputs, [&](ValueId output) { return !dropped_[output]; }))
                for (const ValueId output : node.outputs) dropped_[output] = false;
    }

    // Replaces dropped inputs of node `id` by recomputed values.
    bool replace(Builder& b, const Node& node, NodeId id, std::vector<ValueId>& outputs) {
        if (forward_[id]) {
            copy_node(b, node, outputs);
        } else {
            Node reader = node;
            for (std::size_t i = 0; i < reader.inputs.size(); ++i) {
                const ValueId old = graph_.nodes[id].inputs[i];
                if (old != kNone && dropped_[old]) reader.inputs[i] = once_more(b, old);
            }
            b.set_scope(node.scope);
            b.set_region(node.region);
            copy_node(b, reader, outputs);
        }
        for (std::size_t i = 0; i < outputs.size(); ++i) now_[graph_.nodes[id].outputs[i]] = outputs[i];
        return true;
    }

private:
    // Recomputes a dropped value from the values that were kept.
    ValueId once_more(Builder& b, ValueId wanted) {
        const auto known = [&](ValueId value) { return dropped_[value] ? again_[value] : now_[value]; };
        return copy_ancestors(b, graph_, wanted, known, again_);
    }

    const Graph& graph_;
    std::vector<bool> forward_;  // by node
    std::vector<bool> dropped_;  // by value
    std::vector<ValueId> again_; // recomputed copy of a dropped value, for gradients
    std::vector<ValueId> now_;   // new id of a value
};

} // namespace

Result<Graph> recompute(const Graph& graph) {
    if (std::ranges::none_of(graph.nodes, [](const Node& node) { return node.region != 0; })) return graph;
    Recomputer recomputer(graph);
    const Replace replace = [&](Builder& b, const Node& node, NodeId id, std::vector<ValueId>& outputs) {
        return recomputer.replace(b, node, id, outputs);
    };
    return rewrite(graph, replace, false);
}

} // namespace hekla::graph
