#include "graph/passes/join_cross_entropy.hpp"

#include "graph/rewrite.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace hekla::graph {
namespace {

// Whether a node may be computed earlier than its place in the graph.
bool can_move(const Node& node) {
    if (is_pointwise(node.op)) return true;
    switch (node.op) {
    case Op::reshape:
    case Op::transpose:
    case Op::slice:
    case Op::broadcast:
    case Op::sum:
    case Op::step_scalar:
    case Op::constant:
    case Op::fill:
    case Op::input: return true;
    default: return false;
    }
}

class Joiner {
public:
    explicit Joiner(const Graph& graph) : graph_(graph), now_(graph.values.size(), kNone) {
        std::map<NodeId, std::vector<NodeId>> gradients; // by loss
        for (NodeId id = 0; id < graph.nodes.size(); ++id)
            if (graph.nodes[id].op == Op::linear_cross_entropy_gradient)
                gradients[graph.value(graph.nodes[id].inputs[5]).node].push_back(id);
        for (const auto& [loss, found] : gradients)
            if (found.size() == 1 && joins(loss, found[0])) {
                gradient_of_[loss] = found[0];
                joined_.insert(found[0]);
            }
    }

    bool any() const { return !joined_.empty(); }

    bool replace(Builder& b, const Node& node, NodeId id, std::vector<ValueId>& outputs) {
        if (const auto found = gradient_of_.find(id); found != gradient_of_.end()) {
            const std::vector<ValueId> made = joined(b, node, graph_.nodes[found->second]);
            if (made.empty()) return true;         // the builder has the error
            outputs = {made[0], made[0], made[1]}; // only the gradient read the log-sum-exp
            made_[found->second] = {made[2], made[3], made[4]};
        } else if (joined_.contains(id)) {
            outputs = made_[id];
        } else if (const ValueId first = graph_.nodes[id].outputs[0]; now_[first] != kNone) {
            for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = now_[graph_.nodes[id].outputs[i]];
        } else {
            copy_node(b, node, outputs);
        }
        const std::vector<ValueId>& old = graph_.nodes[id].outputs;
        for (std::size_t i = 0; i < old.size() && i < outputs.size(); ++i) now_[old[i]] = outputs[i];
        return true;
    }

private:
    bool joins(NodeId loss, NodeId gradient) const {
        const Node &forward = graph_.nodes[loss], &back = graph_.nodes[gradient];
        if (forward.op != Op::linear_cross_entropy) return false;
        for (std::size_t i = 0; i < 4; ++i)
            if (forward.inputs[i] != back.inputs[i + 1]) return false;
        if (forward.inputs[4] != back.inputs[6]) return false;
        const ValueId lse = forward.outputs[1];
        for (const auto& [name, value] : graph_.outputs)
            if (value == lse) return false;
        for (NodeId id = loss + 1; id < graph_.nodes.size(); ++id)
            if (id != gradient && std::ranges::count(graph_.nodes[id].inputs, lse) != 0) return false;
        return known_before(loss, back.inputs[0]);
    }

    // Whether a value can be computed before node `loss`.
    bool known_before(NodeId loss, ValueId value) const {
        std::vector<ValueId> open{value};
        std::set<NodeId> seen;
        while (!open.empty()) {
            const ValueId next = open.back();
            open.pop_back();
            if (next == kNone) continue;
            const NodeId id = graph_.value(next).node;
            if (id < loss || !seen.insert(id).second) continue;
            if (id == loss || !can_move(graph_.nodes[id])) return false;
            for (const ValueId input : graph_.nodes[id].inputs) open.push_back(input);
        }
        return true;
    }

    // `loss`: with inputs of the new graph.
    std::vector<ValueId> joined(Builder& b, const Node& loss, const Node& gradient) {
        const ValueId dloss = copy_ancestors(
            b, graph_, gradient.inputs[0], [&](ValueId value) { return now_[value]; }, now_);
        b.set_scope(loss.scope);
        b.set_region(loss.region);
        const ValueId inputs[] = {dloss,          loss.inputs[0], loss.inputs[1],
                                  loss.inputs[2], loss.inputs[3], loss.inputs[4]};
        const NamedAttribute attributes[] = {{"input_first", loss.integer("input_first")},
                                             {"ignore_index", loss.integer("ignore_index")},
                                             {"smoothing", loss.real("smoothing")},
                                             {"scale", loss.real("scale")},
                                             {"softcap", loss.real("softcap")},
                                             {"best", loss.integer("best")},
                                             {"chunk", loss.integer("chunk")},
                                             {"wanted", gradient.integer("wanted")}};
        return b.emit(Op::linear_cross_entropy_with_gradient, inputs, attributes);
    }

    const Graph& graph_;
    std::map<NodeId, NodeId> gradient_of_;        // by loss
    std::set<NodeId> joined_;                     // gradients
    std::map<NodeId, std::vector<ValueId>> made_; // by gradient: its outputs
    std::vector<ValueId> now_;                    // new id of a value
};

} // namespace

Result<Graph> join_cross_entropy(const Graph& graph) {
    Joiner joiner(graph);
    if (!joiner.any()) return graph;
    const Replace replace = [&](Builder& b, const Node& node, NodeId id, std::vector<ValueId>& outputs) {
        return joiner.replace(b, node, id, outputs);
    };
    return rewrite(graph, replace, false);
}

} // namespace hekla::graph
