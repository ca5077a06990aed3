#include "graph/passes/id_range.hpp"

#include <algorithm>

namespace hekla::graph {
namespace {

bool moves_values(Op op) {
    switch (op) {
    case Op::reshape:
    case Op::transpose:
    case Op::slice:
    case Op::concat:
    case Op::pad:
    case Op::broadcast:
    case Op::flip:
    case Op::tap:
    case Op::once: return true;
    default: return false;
    }
}

} // namespace

int64_t id_range(const Graph& graph, std::string_view name) {
    const ValueId leaf = graph.find_leaf(Op::input, name);
    if (leaf == kNone) return 0;
    std::vector<bool> holds_ids(graph.values.size(), false);
    holds_ids[leaf] = true;
    int64_t range = 0;
    for (const Node& node : graph.nodes) { // every value is computed before it is read
        if (node.op == Op::embedding && holds_ids[node.inputs[1]]) {
            const int64_t rows = graph.shape(node.inputs[0])[0];
            range = range == 0 ? rows : std::min(range, rows);
        }
        if (!moves_values(node.op)) continue;
        const bool from_ids =
            std::ranges::any_of(node.inputs, [&](ValueId input) { return input != kNone && holds_ids[input]; });
        for (const ValueId output : node.outputs) holds_ids[output] = holds_ids[output] || from_ids;
    }
    return range;
}

} // namespace hekla::graph
