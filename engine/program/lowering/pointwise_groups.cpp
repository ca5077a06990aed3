// The groups of graph/fuse.hpp that become kernels: those of pointwise operations, without unneeded nodes.
#include "graph/fuse.hpp"
#include "program/lowering/pointwise.hpp"

#include <algorithm>
#include <set>

namespace hekla::program {

namespace {

// A cast or stop_gradient alone is a view and needs no kernel.
bool only_hands_on(const graph::Graph& graph, const std::vector<graph::NodeId>& nodes) {
    if (nodes.size() > 1) return false;
    const graph::Node& node = graph.nodes[nodes.front()];
    if (node.op == graph::Op::cast)
        return graph::is_float(graph.kind(node.inputs[0])) == graph::is_float(graph.kind(node.outputs[0]));
    return node.op == graph::Op::stop_gradient || (node.op == graph::Op::dropout && node.real("probability") <= 0);
}

} // namespace

PointwiseGroups group_pointwise(const graph::Graph& graph, const std::vector<bool>& needed,
                                const std::vector<graph::ValueId>& kept, const Limits& limits) {
    PointwiseGroups result;
    if (!limits.generated_shaders) return result;

    std::vector<std::vector<graph::NodeId>> readers(graph.values.size());
    for (graph::NodeId n = 0; n < graph.nodes.size(); ++n)
        if (needed[n])
            for (const graph::ValueId input : graph.nodes[n].inputs)
                if (input != graph::kNone) readers[input].push_back(n);
    const std::set<graph::ValueId> wanted(kept.begin(), kept.end());

    for (const graph::Group& candidate : graph::fuse(graph).groups) {
        if (!candidate.pointwise || candidate.shape.elements() == 0) continue;
        PointwiseGroup group;
        std::copy_if(candidate.nodes.begin(), candidate.nodes.end(), std::back_inserter(group.nodes),
                     [&](graph::NodeId node) { return needed[node]; });
        if (group.nodes.empty() || only_hands_on(graph, group.nodes)) continue;
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
