#include "graph/passes/recompute.hpp"

#include "graph/output.hpp"
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
        if (!output_of(OutputKind::gradient, name)) need(value);
    for (const LossTerm& loss : graph.losses) need(loss.sum), need(loss.count);
    for (const Metric& metric : graph.metrics) need(metric.sum), need(metric.count);
    for (std::size_t id = graph.nodes.size(); id-- > 0;)
        if (forward[id])
            for (const ValueId input : graph.nodes[id].inputs) need(input);
    return forward;
}

bool is_selected(Op op, Recompute what) {
    switch (op) {
    case Op::layer_norm:
    case Op::rms_norm: return what.norms;
    case Op::relu:
    case Op::gelu:
    case Op::silu:
    case Op::tanh:
    case Op::sigmoid:
    case Op::softplus: return what.activations;
    default: return false;
    }
}

// Whether the operation is recomputed with a selected one whose result it reads.
bool follows(Op op) {
    switch (op) {
    case Op::mul:
    case Op::dropout:
    case Op::cast:
    case Op::reshape:
    case Op::transpose:
    case Op::slice:
    case Op::broadcast: return true;
    default: return false;
    }
}

// Returns by value whether it is selected and can be computed from values that are stored in any case.
std::vector<bool> selected_values(const Graph& graph, const std::vector<bool>& forward, Recompute what) {
    std::vector<bool> stored(graph.values.size(), false), selected(graph.values.size(), false);
    for (NodeId id = 0; id < graph.nodes.size(); ++id)
        for (const ValueId input : graph.nodes[id].inputs)
            if (!forward[id]) stored[input] = true;
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
        const Node& node = graph.nodes[id];
        if (!forward[id]) continue;
        const auto is_read = [&](ValueId input) { return input != kNone && selected[input]; };
        const auto is_known = [&](ValueId input) {
            return input == kNone || selected[input] || stored[input] || is_leaf(graph.producer(input).op);
        };
        if (node.op == Op::patches) // which may be many times as large as x
            selected[node.outputs[0]] = true;
        else if (is_selected(node.op, what) || (follows(node.op) && std::ranges::any_of(node.inputs, is_read)))
            selected[node.outputs[0]] = std::ranges::all_of(node.inputs, is_known);
    }
    return selected;
}

class Recomputer {
public:
    Recomputer(const Graph& graph, Recompute also)
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
        keep_results();
        // A node that keeps one output keeps all of them: the others are statistics, which are small compared with
        // recomputing them.
        for (const Node& node : graph.nodes)
            if (std::ranges::any_of(node.outputs, [&](ValueId output) { return !dropped_[output]; }))
                for (const ValueId output : node.outputs) dropped_[output] = false;
        // Statistics of a norm are small, and stay.
        const std::vector<bool> selected = selected_values(graph, forward_, also);
        for (ValueId value = 1; value < graph.values.size(); ++value)
            if (selected[value]) dropped_[value] = true;
        keep_results();
    }

    bool any() const { return std::ranges::find(dropped_, true) != dropped_.end(); }

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
    void keep_results() {
        for (const auto& [name, value] : graph_.outputs) dropped_[value] = false;
        for (const LossTerm& loss : graph_.losses) dropped_[loss.sum] = dropped_[loss.count] = false;
        for (const Metric& metric : graph_.metrics) dropped_[metric.sum] = dropped_[metric.count] = false;
    }

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

Result<Graph> recompute(const Graph& graph, Recompute also) {
    Recomputer recomputer(graph, also);
    if (!recomputer.any()) return graph;
    const Replace replace = [&](Builder& b, const Node& node, NodeId id, std::vector<ValueId>& outputs) {
        return recomputer.replace(b, node, id, outputs);
    };
    return rewrite(graph, replace, false);
}

} // namespace hekla::graph
