#include "graph/passes/attention_maps.hpp"

#include "graph/builder.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::graph {
namespace {

// Kernels hold a value row in registers, so the identity is passed in pieces no wider than a usual head.
constexpr int64_t kColumns = 64;

// Returns columns [first, first + count) of the identity of `length` rows, as values [1, 1, length, count].
std::vector<double> identity_columns(int64_t length, int64_t first, int64_t count) {
    std::vector<double> values(static_cast<std::size_t>(length * count), 0.0);
    for (int64_t j = 0; j < count; ++j) values[static_cast<std::size_t>((first + j) * count + j)] = 1.0;
    return values;
}

ValueId map_of(Builder& b, const Node& attention) {
    const Shape keys = b.shape(attention.inputs[1]);
    const int64_t batch = keys[0], heads = keys[1], length = keys[2];
    std::vector<NamedAttribute> attributes;
    for (const Attribute& a : attention.attributes)
        if (std::string_view(a.name) != "dropout") attributes.push_back({a.name, a.value});
    std::vector<ValueId> parts;
    for (int64_t first = 0; first < length && b.ok(); first += kColumns) {
        const int64_t count = std::min(kColumns, length - first);
        const ValueId one =
            b.constant(Kind::float_, Shape{1, 1, length, count}, identity_columns(length, first, count));
        std::vector<ValueId> inputs = attention.inputs;
        inputs[2] = b(Op::broadcast, {one}, {{"shape", std::vector<int64_t>{batch, heads, length, count}}});
        const std::vector<ValueId> made = b.emit(Op::attention, inputs, attributes);
        if (made.empty()) return kNone;
        parts.push_back(made[0]);
    }
    if (parts.size() == 1) return parts[0];
    const NamedAttribute axis{"axis", int64_t{3}};
    const std::vector<ValueId> joined = b.emit(Op::concat, parts, {&axis, 1});
    return joined.empty() ? kNone : joined[0];
}

// Returns for each value whether it depends on the decoder's input in an encoder-decoder.
std::vector<bool> values_written(const Graph& graph) {
    std::vector<bool> written(graph.values.size(), false);
    if (const ValueId ids = graph.find_leaf(Op::input, "decoder_input_ids"); ids != kNone) written[ids] = true;
    for (const Node& node : graph.nodes)
        if (std::ranges::any_of(node.inputs, [&](ValueId input) { return written[input]; }))
            for (const ValueId output : node.outputs) written[output] = true;
    return written;
}

} // namespace

Result<std::vector<AttentionMap>> add_attention_maps(Graph& graph, ValueId offered) {
    std::vector<AttentionMap> maps;
    const std::vector<bool> written = values_written(graph);
    const std::size_t described = graph.nodes.size();
    Builder b(std::move(graph));
    for (NodeId id = 0; id < described && b.ok(); ++id) {
        const Node node = b.graph().nodes[id]; // a copy: emitting moves the nodes
        if (node.op == Op::attention_cached)
            return unsupported("attention maps need the whole sequence at once: describe the graph in mode evaluate");
        if (node.op != Op::attention) continue;
        b.set_scope(node.scope);
        AttentionMap map;
        map.output = fmt::format("attention.{}", maps.size());
        map.place = b.graph().scope_path(node.scope);
        const ValueId value = map_of(b, node);
        if (!b.ok()) break;
        map.shape = b.shape(value);
        map.queries_written = written[node.inputs[0]];
        map.keys_written = written[node.inputs[1]];
        b.output(map.output, value);
        maps.push_back(std::move(map));
    }
    if (maps.empty() && offered != kNone) {
        Shape shape = b.shape(offered);
        if (shape.rank() == 3) shape = Shape{shape[0], 1, shape[1], shape[2]};
        if (shape.rank() != 4)
            return unsupported(fmt::format("the network offers weights of attention of the shape {}: expected [rows, "
                                           "queries, keys] or [rows, heads, queries, keys]",
                                           shape.text()));
        AttentionMap map{"attention.0", "attention", shape, written[offered], false};
        b.output(map.output, b(Op::reshape, {offered}, {{"shape", shape.vector()}}));
        maps.push_back(std::move(map));
    }
    b.set_scope(0);
    HK_ASSIGN(graph, b.finish());
    return maps;
}

} // namespace hekla::graph
