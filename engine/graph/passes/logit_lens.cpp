#include "graph/passes/logit_lens.hpp"

#include "graph/rewrite.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::graph {
namespace {

bool is_made_by_norm(const Graph& graph, ValueId value) {
    const Op op = graph.producer(value).op;
    return op == Op::layer_norm || op == Op::rms_norm;
}

// Returns the nodes between two values, in order: they depend on the first, and the second depends on them.
std::vector<NodeId> nodes_between(const Graph& graph, ValueId from, ValueId to) {
    std::vector<bool> depends(graph.values.size(), false), needed(graph.nodes.size(), false);
    depends[from] = true;
    std::vector<NodeId> between;
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
        const Node& node = graph.nodes[id];
        if (std::ranges::none_of(node.inputs, [&](ValueId input) { return depends[input]; })) continue;
        for (const ValueId output : node.outputs) depends[output] = true;
        between.push_back(id);
    }
    depends[kNone] = false;
    needed[graph.value(to).node] = true;
    for (NodeId id = static_cast<NodeId>(graph.nodes.size()); id-- > 0;)
        if (needed[id])
            for (const ValueId input : graph.nodes[id].inputs)
                if (input != kNone) needed[graph.value(input).node] = true;
    std::erase_if(between, [&](NodeId id) { return !needed[id]; });
    return between;
}

} // namespace

Result<int64_t> add_logit_lens(Graph& graph) {
    const auto output = [&](const std::string& name) -> Result<ValueId> {
        const auto found = graph.outputs.find(name);
        if (found != graph.outputs.end()) return found->second;
        return not_found(fmt::format("a lens needs the port '{}', which this network does not offer", name));
    };
    HK_ASSIGN(const ValueId logits, output("logits"));
    std::vector<ValueId> layers;
    for (;;) {
        const Result<ValueId> layer = output(fmt::format("layer.{}.hidden", layers.size()));
        if (!layer.ok() && layers.size() < 2) return layer.status();
        if (!layer.ok()) break;
        layers.push_back(layer.value());
    }
    ValueId last = layers.back();
    if (is_made_by_norm(graph, last) && !is_made_by_norm(graph, layers[layers.size() - 2]))
        last = graph.producer(last).inputs.front();
    const std::vector<NodeId> above = nodes_between(graph, last, logits);
    if (above.empty()) return unsupported("a lens needs logits that are made of the last layer");
    const std::size_t described = graph.values.size();
    Builder b(std::move(graph));
    for (std::size_t layer = 0; layer + 1 < layers.size() && b.ok(); ++layer) {
        std::vector<ValueId> now(described);
        for (std::size_t value = 0; value < described; ++value) now[value] = static_cast<ValueId>(value);
        now[last] = layers[layer];
        for (const NodeId id : above) {
            Node node = b.graph().nodes[id]; // a copy: emitting moves the nodes
            for (ValueId& input : node.inputs) input = now[input];
            b.set_scope(node.scope);
            std::vector<ValueId> outputs;
            copy_node(b, node, outputs);
            if (!b.ok()) break;
            for (std::size_t i = 0; i < outputs.size(); ++i) now[node.outputs[i]] = outputs[i];
        }
        b.output(fmt::format("lens.{}", layer), now[logits]);
    }
    b.output(fmt::format("lens.{}", layers.size() - 1), logits);
    b.set_scope(0);
    HK_ASSIGN(graph, b.finish());
    return static_cast<int64_t>(layers.size());
}

} // namespace hekla::graph
