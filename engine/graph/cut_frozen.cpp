#include "graph/cut_frozen.hpp"

#include "graph/rewrite.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::graph {
namespace {

bool is_random(const Node& node) {
    switch (node.op) {
    case Op::dropout:
    case Op::random_uniform:
    case Op::random_normal: return true;
    case Op::attention: return node.real("dropout") > 0.0;
    default: return false;
    }
}

// What a node's outputs depend on.
struct Origin {
    bool fixed = false;  // only fields, constants and frozen parameters, and nothing random
    bool fields = false; // at least one field
    bool frozen = false; // at least one frozen parameter
};

std::vector<Origin> origins(const Graph& graph, const std::set<std::string, std::less<>>& frozen) {
    std::vector<Origin> origin(graph.nodes.size());
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
        const Node& node = graph.nodes[id];
        Origin& o = origin[id];
        if (node.op == Op::parameter) {
            o.fixed = o.frozen = frozen.contains(node.text("name"));
            continue;
        }
        o.fixed = node.op != Op::step_scalar && !is_random(node);
        o.fields = node.op == Op::input;
        for (const ValueId input : node.inputs) {
            if (input == kNone) continue;
            const Origin& from = origin[graph.value(input).node];
            o.fixed = o.fixed && from.fixed;
            o.fields = o.fields || from.fields;
            o.frozen = o.frozen || from.frozen;
        }
    }
    return origin;
}

} // namespace

Result<std::optional<FrozenCut>> cut_frozen(const Graph& graph, const std::set<std::string, std::less<>>& frozen,
                                            int64_t batch) {
    const std::vector<Origin> origin = origins(graph, frozen);
    const auto kept = [&](NodeId id) { return origin[id].fixed && origin[id].fields && origin[id].frozen; };
    std::set<ValueId> border;
    const auto read = [&](ValueId value) {
        if (value != kNone && kept(graph.value(value).node)) border.insert(value);
    };
    for (NodeId id = 0; id < graph.nodes.size(); ++id)
        if (!kept(id))
            for (const ValueId input : graph.nodes[id].inputs) read(input);
    for (const LossTerm& loss : graph.losses) read(loss.sum), read(loss.count);
    for (const Metric& metric : graph.metrics) read(metric.sum), read(metric.count);
    for (const auto& [name, value] : graph.outputs) read(value);
    if (border.empty()) return std::optional<FrozenCut>();
    for (const ValueId value : border)
        if (graph.shape(value).rank() == 0 || graph.shape(value)[0] != batch) return std::optional<FrozenCut>();

    FrozenCut cut;
    Graph below = graph;
    below.losses.clear();
    below.metrics.clear();
    below.outputs.clear();
    std::map<ValueId, std::string> names;
    for (const ValueId value : border) {
        const std::string name = fmt::format("feature.{}", cut.features.size());
        names.emplace(value, name);
        below.outputs.emplace(name, value);
        cut.features.push_back(name);
    }
    HK_ASSIGN(cut.below, prune(below));
    HK_ASSIGN(cut.above, rewrite(
                             graph,
                             [&](Builder& builder, const Node& node, NodeId id, std::vector<ValueId>& outputs) {
                                 const auto is_border = [&](ValueId value) { return names.contains(value); };
                                 if (std::ranges::none_of(graph.nodes[id].outputs, is_border)) return false;
                                 copy_node(builder, node, outputs); // for outputs that are not features; pruned if none
                                 for (std::size_t i = 0; i < outputs.size(); ++i) {
                                     const ValueId old = graph.nodes[id].outputs[i];
                                     if (is_border(old))
                                         outputs[i] = builder.input(names.at(old), graph.kind(old), graph.shape(old));
                                 }
                                 return true;
                             },
                             true));
    return std::optional<FrozenCut>(std::move(cut));
}

} // namespace hekla::graph
