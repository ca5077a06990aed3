#include "graph/rewrite.hpp"

#include <fmt/format.h>

namespace hekla::graph {

void copy_node(Builder& builder, const Node& node, std::vector<ValueId>& outputs) {
    const auto kind = [&] { return static_cast<Kind>(node.integer("kind")); };
    const auto shape = [&] { return Shape(node.ints("shape")); };
    switch (node.op) { // through the typed calls, which return the existing leaf of a name
    case Op::input: outputs = {builder.input(node.text("field"), kind(), shape())}; return;
    case Op::parameter:
        outputs = {builder.parameter(node.text("name"), shape(), node.integer("initializer"), node.real("a"),
                                     node.real("b"), static_cast<uint32_t>(node.integer("flags")))};
        return;
    case Op::buffer: outputs = {builder.buffer(node.text("name"), kind(), shape(), node.reals("value"))}; return;
    case Op::step_scalar: outputs = {builder.step_scalar(node.text("name"), node.real("initial"))}; return;
    default: break;
    }
    const std::vector<NamedAttribute> attributes = attributes_of(node);
    outputs = node.own != nullptr ? builder.emit_own(node.own, node.inputs, attributes)
                                  : builder.emit(node.op, node.inputs, attributes);
}

Result<Graph> rewrite(const Graph& graph, const Replace& replace, bool prune_result) {
    Builder builder;
    builder.mutable_graph().scopes = graph.scopes;
    std::vector<ValueId> now(graph.values.size(), kNone); // new ids of the old values
    const auto mapped = [&](ValueId old, const std::string& reader) {
        if (old != kNone && now[old] == kNone)
            builder.fail(internal_error(fmt::format("rewrite: {} reads a value of {} that was replaced by nothing",
                                                    reader, graph.describe(graph.value(old).node))));
        return now[old];
    };

    std::vector<ValueId> outputs;
    for (NodeId id = 0; id < graph.nodes.size() && builder.ok(); ++id) {
        Node node = graph.nodes[id];
        builder.set_scope(node.scope);
        builder.set_region(node.region);
        for (ValueId& input : node.inputs) input = mapped(input, info(node).name);
        if (!builder.ok()) break;
        const std::vector<ValueId>& old = graph.nodes[id].outputs;
        outputs.assign(old.size(), kNone);
        if (!replace || !replace(builder, node, id, outputs)) copy_node(builder, node, outputs);
        for (std::size_t i = 0; i < old.size() && i < outputs.size(); ++i) now[old[i]] = outputs[i];
    }
    builder.set_scope(0);
    builder.set_region(0);
    if (builder.ok()) {
        for (const auto& [name, value] : graph.outputs)
            if (!builder.graph().outputs.contains(name)) builder.output(name, mapped(value, "output " + name));
        for (const LossTerm& loss : graph.losses)
            builder.loss(loss.name, mapped(loss.sum, "loss " + loss.name), mapped(loss.count, "loss " + loss.name),
                         loss.weight);
        for (const Metric& metric : graph.metrics)
            builder.metric(metric.name, mapped(metric.sum, "metric " + metric.name),
                           mapped(metric.count, "metric " + metric.name));
    }
    HK_ASSIGN(Graph result, builder.finish());
    if (!prune_result) return result;
    return prune(result);
}

ValueId copy_ancestors(Builder& builder, const Graph& graph, ValueId wanted,
                       const std::function<ValueId(ValueId)>& known, std::vector<ValueId>& made) {
    std::vector<ValueId> open{wanted};
    while (!open.empty() && builder.ok()) {
        const ValueId value = open.back();
        if (known(value) != kNone) {
            open.pop_back();
            continue;
        }
        Node copy = graph.producer(value);
        bool ready = true;
        for (ValueId& input : copy.inputs) {
            if (input == kNone) continue;
            const ValueId now = known(input);
            if (now == kNone) {
                open.push_back(input);
                ready = false;
            } else {
                input = now;
            }
        }
        if (!ready) continue;
        open.pop_back();
        builder.set_scope(copy.scope);
        builder.set_region(copy.region);
        std::vector<ValueId> outputs;
        copy_node(builder, copy, outputs);
        const std::vector<ValueId>& old = graph.producer(value).outputs;
        for (std::size_t i = 0; i < outputs.size(); ++i) made[old[i]] = outputs[i];
    }
    return known(wanted);
}

Result<Graph> prune(const Graph& graph) {
    std::vector<bool> needed(graph.nodes.size(), false);
    const auto need = [&](ValueId value) {
        if (value != kNone) needed[graph.value(value).node] = true;
    };
    for (const auto& [name, value] : graph.outputs) need(value);
    for (const LossTerm& loss : graph.losses) need(loss.sum), need(loss.count);
    for (const Metric& metric : graph.metrics) need(metric.sum), need(metric.count);
    for (std::size_t id = graph.nodes.size(); id-- > 0;)
        if (needed[id])
            for (const ValueId input : graph.nodes[id].inputs) need(input);

    // Shapes are not inferred again: remaining nodes keep attributes, kinds and shapes and get new ids.
    Graph result;
    result.scopes = graph.scopes;
    std::vector<ValueId> now(graph.values.size(), kNone);
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
        if (!needed[id]) continue;
        const Node& old = graph.nodes[id];
        Node node = old;
        for (ValueId& input : node.inputs) input = now[input];
        for (ValueId& output : node.outputs) {
            Value value = graph.value(output);
            value.node = static_cast<NodeId>(result.nodes.size());
            now[output] = static_cast<ValueId>(result.values.size());
            output = now[output];
            result.values.push_back(value);
        }
        result.nodes.push_back(std::move(node));
    }
    for (const auto& [name, value] : graph.outputs) result.outputs[name] = now[value];
    for (const LossTerm& loss : graph.losses)
        result.losses.push_back({loss.name, now[loss.sum], now[loss.count], loss.weight});
    for (const Metric& metric : graph.metrics)
        result.metrics.push_back({metric.name, now[metric.sum], now[metric.count]});
    return result;
}

} // namespace hekla::graph
