// The groups of graph/passes/fuse.hpp that become kernels: those of pointwise operations, without unneeded nodes.
#include "graph/passes/fuse.hpp"
#include "program/lowering/pointwise.hpp"

#include <algorithm>
#include <set>

namespace hekla::program {

std::vector<std::vector<graph::NodeId>> readers_of(const graph::Graph& graph, const std::vector<bool>& needed) {
    std::vector<std::vector<graph::NodeId>> readers(graph.values.size());
    for (graph::NodeId n = 0; n < graph.nodes.size(); ++n)
        if (needed[n])
            for (const graph::ValueId input : graph.nodes[n].inputs)
                if (input != graph::kNone) readers[input].push_back(n);
    return readers;
}

namespace {

// Takes sums out of a group that a linear layer's kernel can add while it stores (epilogue.hpp), into groups of their
// own: those of a linear's result and another value, both from outside of the group, where the sum is stored anyway.
// The linear's own result is then neither stored nor read.
class SumsOfLinears {
public:
    SumsOfLinears(const graph::Graph& graph, const std::vector<std::vector<graph::NodeId>>& readers,
                  const std::set<graph::ValueId>& wanted)
        : graph_(graph), readers_(readers), wanted_(wanted) {}

    // Removes them from the nodes of a group and returns them.
    std::vector<graph::NodeId> take(std::vector<graph::NodeId>& nodes) const {
        if (nodes.size() == 1) return {};
        const std::set<graph::NodeId> members(nodes.begin(), nodes.end());
        const auto last =
            std::ranges::stable_partition(nodes, [&](graph::NodeId node) { return !is_one(node, members); });
        std::vector<graph::NodeId> taken(last.begin(), last.end());
        nodes.erase(last.begin(), last.end());
        return taken;
    }

private:
    bool is_one(graph::NodeId id, const std::set<graph::NodeId>& members) const {
        const graph::Node& node = graph_.nodes[id];
        if (node.op != graph::Op::add) return false;
        const graph::ValueId sum = node.outputs[0];
        const auto outside = [&](graph::NodeId other) { return !members.contains(other); };
        const bool stored = wanted_.contains(sum) || std::ranges::any_of(readers_[sum], outside);
        const auto suits = [&](graph::ValueId term) {
            return graph_.shape(term) == graph_.shape(sum) && outside(graph_.value(term).node);
        };
        return stored && std::ranges::all_of(node.inputs, suits) &&
               std::ranges::any_of(node.inputs, [&](graph::ValueId term) { return of_linear(term); });
    }

    bool of_linear(graph::ValueId term) const {
        const graph::Node& node = graph_.producer(term);
        return node.op == graph::Op::linear && graph_.shape(node.inputs[0])[-1] > 0 && readers_[term].size() == 1 &&
               !wanted_.contains(term);
    }

    const graph::Graph& graph_;
    const std::vector<std::vector<graph::NodeId>>& readers_;
    const std::set<graph::ValueId>& wanted_;
};

} // namespace

PointwiseGroups group_pointwise(const graph::Graph& graph, const std::vector<bool>& needed,
                                const std::vector<graph::ValueId>& kept, const Limits& limits) {
    PointwiseGroups result;
    if (!limits.generated_shaders) return result;

    const std::vector<std::vector<graph::NodeId>> readers = readers_of(graph, needed);
    const std::set<graph::ValueId> wanted(kept.begin(), kept.end());
    const SumsOfLinears sums(graph, readers, wanted);

    for (const graph::Group& candidate : graph::fuse(graph).groups) {
        if (!candidate.pointwise || candidate.shape.elements() == 0) continue;
        PointwiseGroup group;
        std::copy_if(candidate.nodes.begin(), candidate.nodes.end(), std::back_inserter(group.nodes),
                     [&](graph::NodeId node) { return needed[node]; });
        for (const graph::NodeId sum : sums.take(group.nodes))
            result.add({.nodes = {sum}, .outputs = {graph.nodes[sum].outputs[0]}});
        if (group.nodes.empty()) continue;
        if (group.nodes.size() == 1 && is_same(graph, graph.nodes[group.nodes[0]]))
            continue; // a view, without a kernel
        const std::set<graph::NodeId> members(group.nodes.begin(), group.nodes.end());
        for (const graph::NodeId member : group.nodes) {
            const graph::ValueId output = graph.nodes[member].outputs[0];
            const bool outside = std::any_of(readers[output].begin(), readers[output].end(),
                                             [&](graph::NodeId reader) { return !members.contains(reader); });
            if (outside || wanted.contains(output)) group.outputs.push_back(output);
        }
        result.add(std::move(group));
    }
    return result;
}

} // namespace hekla::program
