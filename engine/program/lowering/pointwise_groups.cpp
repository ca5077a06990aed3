// The groups of graph/fuse.hpp that become kernels: those of pointwise operations, without unneeded nodes.
#include "graph/fuse.hpp"
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

PointwiseGroups group_pointwise(const graph::Graph& graph, const std::vector<bool>& needed,
                                const std::vector<graph::ValueId>& kept, const Limits& limits) {
    PointwiseGroups result;
    if (!limits.generated_shaders) return result;

    const std::vector<std::vector<graph::NodeId>> readers = readers_of(graph, needed);
    const std::set<graph::ValueId> wanted(kept.begin(), kept.end());

    for (const graph::Group& candidate : graph::fuse(graph).groups) {
        if (!candidate.pointwise || candidate.shape.elements() == 0) continue;
        PointwiseGroup group;
        std::copy_if(candidate.nodes.begin(), candidate.nodes.end(), std::back_inserter(group.nodes),
                     [&](graph::NodeId node) { return needed[node]; });
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
