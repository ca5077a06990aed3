#include "program/lowering/column_sums.hpp"

namespace hekla::program {

using graph::Op;

std::map<graph::NodeId, ColumnSums> find_column_sums(const graph::Graph& graph, const std::vector<bool>& needed) {
    std::map<graph::ValueId, graph::NodeId> sums; // by the matrix whose rows are summed
    for (graph::NodeId id = 0; id < graph.nodes.size(); ++id) {
        const graph::Node& node = graph.nodes[id];
        if (!needed[id] || node.op != Op::sum || graph.shape(node.inputs[0]).rank() != 2) continue;
        if (node.ints("axes") == std::vector<int64_t>{0} && node.integer("keep") == 0 &&
            graph.kind(node.inputs[0]) == graph::Kind::float_)
            sums.emplace(node.inputs[0], id);
    }
    std::map<graph::NodeId, ColumnSums> found;
    for (graph::NodeId id = 0; id < graph.nodes.size() && !sums.empty(); ++id) {
        const graph::Node& node = graph.nodes[id];
        if (!needed[id] || node.op != Op::matmul || node.integer("transpose_a") == 0 ||
            node.integer("transpose_b") != 0)
            continue;
        for (const std::size_t factor : {1u, 0u}) {
            const auto sum = sums.find(node.inputs[factor]);
            if (sum == sums.end() || sum->second < id) continue;
            found[id] = {sum->second, factor == 1};
            sums.erase(sum);
            break;
        }
    }
    return found;
}

} // namespace hekla::program
