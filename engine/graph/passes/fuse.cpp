#include "graph/passes/fuse.hpp"

#include <algorithm>
#include <limits>

namespace hekla::graph {
namespace {

constexpr std::size_t kNoGroup = std::numeric_limits<std::size_t>::max();

class Fuser {
public:
    Fuser(const Graph& graph, const FuseLimits& limits)
        : graph_(graph), limits_(limits), readers_(graph.values.size()), kept_(graph.values.size(), false),
          group_of_(graph.nodes.size(), kNoGroup) {
        for (NodeId id = 0; id < graph.nodes.size(); ++id)
            for (const ValueId input : graph.nodes[id].inputs)
                if (input != kNone && (readers_[input].empty() || readers_[input].back() != id))
                    readers_[input].push_back(id);
        for (const auto& [name, value] : graph.outputs) kept_[value] = true;
        for (const LossTerm& loss : graph.losses) kept_[loss.sum] = kept_[loss.count] = true;
        for (const Metric& metric : graph.metrics) kept_[metric.sum] = kept_[metric.count] = true;
    }

    Fusion run() {
        for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
            const Node& node = graph_.nodes[id];
            if (is_leaf(node.op)) continue;
            group_of_[id] = nodes_.size();
            nodes_.push_back({id});
            if (is_pointwise(node.op)) join(id);
        }
        Fusion fusion;
        for (const std::vector<NodeId>& nodes : nodes_)
            if (!nodes.empty()) fusion.groups.push_back(describe(nodes));
        std::ranges::sort(fusion.groups, {}, [](const Group& group) { return group.nodes.back(); });
        count(fusion);
        return fusion;
    }

private:
    bool is_number(ValueId value) const { return graph_.producer(value).op == Op::fill; }
    const Shape& result(NodeId id) const { return graph_.shape(graph_.nodes[id].outputs[0]); }

    // Merges the node's own group with those of its operands if possible.
    void join(NodeId id) {
        std::vector<std::size_t> candidates;
        for (const ValueId input : graph_.nodes[id].inputs) {
            const NodeId from = graph_.value(input).node;
            const std::size_t group = group_of_[from];
            if (group != kNoGroup && is_pointwise(graph_.nodes[from].op) && result(from) == result(id) &&
                graph_.nodes[from].region == graph_.nodes[id].region)
                candidates.push_back(group);
        }
        std::ranges::sort(candidates, std::greater<>()); // latest first: it has to be delayed the least
        candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
        for (const std::size_t group : candidates) try_merge(group, group_of_[id], id);
    }

    // Merges if the nodes of `group` can be delayed to node `last`: nothing outside of the two groups reads them
    // before.
    void try_merge(std::size_t group, std::size_t into, NodeId last) {
        for (const NodeId id : nodes_[group])
            for (const ValueId output : graph_.nodes[id].outputs)
                for (const NodeId reader : readers_[output])
                    if (reader < last && group_of_[reader] != group && group_of_[reader] != into) return;
        std::vector<NodeId> merged;
        std::ranges::merge(nodes_[group], nodes_[into], std::back_inserter(merged));
        if (merged.size() > limits_.nodes) return;
        const Group both = describe(merged);
        if (both.inputs.size() > limits_.inputs || both.outputs.size() > limits_.outputs) return;
        for (const NodeId id : nodes_[group]) group_of_[id] = into;
        nodes_[into] = std::move(merged);
        nodes_[group].clear();
    }

    Group describe(const std::vector<NodeId>& nodes) const {
        Group group;
        group.nodes = nodes;
        group.pointwise = is_pointwise(graph_.nodes[nodes[0]].op);
        if (group.pointwise) group.shape = result(nodes[0]);
        const auto inside = [&](NodeId id) { return std::ranges::binary_search(nodes, id); };
        const auto once = [](std::vector<ValueId>& list, ValueId value) {
            if (std::ranges::find(list, value) == list.end()) list.push_back(value);
        };
        for (const NodeId id : nodes) {
            for (const ValueId input : graph_.nodes[id].inputs) {
                if (input == kNone || inside(graph_.value(input).node)) continue;
                once(group.pointwise && is_number(input) ? group.numbers : group.inputs, input);
            }
            for (const ValueId output : graph_.nodes[id].outputs)
                if (kept_[output] || std::ranges::any_of(readers_[output], [&](NodeId r) { return !inside(r); }))
                    group.outputs.push_back(output);
        }
        return group;
    }

    void count(Fusion& fusion) const {
        FuseStats& stats = fusion.stats;
        for (const Group& group : fusion.groups) {
            if (!group.pointwise) continue;
            ++stats.pointwise_groups;
            stats.pointwise_nodes += group.nodes.size();
            for (const NodeId id : group.nodes) {
                stats.stored_before += result(id).elements();
                for (const ValueId input : graph_.nodes[id].inputs)
                    if (!is_number(input)) stats.read_before += graph_.shape(input).elements();
            }
            for (const ValueId output : group.outputs) stats.stored_after += graph_.shape(output).elements();
            for (const ValueId input : group.inputs) stats.read_after += graph_.shape(input).elements();
        }
    }

    const Graph& graph_;
    FuseLimits limits_;
    std::vector<std::vector<NodeId>> readers_; // by value, ascending
    std::vector<bool> kept_;                   // by value: needed after the graph has run
    std::vector<std::size_t> group_of_;        // by node
    std::vector<std::vector<NodeId>> nodes_;   // by group; empty if merged into another
};

} // namespace

Fusion fuse(const Graph& graph, const FuseLimits& limits) { return Fuser(graph, limits).run(); }

} // namespace hekla::graph
