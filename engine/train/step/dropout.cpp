#include "train/step/dropout.hpp"

#include "graph/rewrite.hpp"

#include <algorithm>

namespace hekla::train {
namespace {

constexpr std::string_view kOfAttention = "dropout"; // its attribute

} // namespace

bool learns_from_preferences(std::span<const plugin::ColumnNeed> needs) {
    const auto reads = [&](std::string_view name) {
        return std::ranges::any_of(needs, [&](const plugin::ColumnNeed& need) { return need.name == name; });
    };
    return reads("rejected") || reads("ranking") || (reads("completion") && reads("label"));
}

bool has_dropout(const graph::Graph& graph) {
    return std::ranges::any_of(graph.nodes, [](const graph::Node& node) {
        return node.op == graph::Op::dropout || (node.op == graph::Op::attention && node.real(kOfAttention) > 0.0);
    });
}

Result<graph::Graph> without_dropout(const graph::Graph& graph) {
    const auto replace = [](graph::Builder& builder, const graph::Node& node, graph::NodeId,
                            std::vector<graph::ValueId>& outputs) {
        if (node.op == graph::Op::dropout) {
            outputs[0] = node.inputs[0];
            return true;
        }
        if (node.op != graph::Op::attention) return false;
        graph::Node still = node;
        still.set(kOfAttention, 0.0);
        graph::copy_node(builder, still, outputs);
        return true;
    };
    return graph::rewrite(graph, replace, false);
}

} // namespace hekla::train
