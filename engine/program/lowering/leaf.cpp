// Leaves: inputs from the host, tensors of the store, and constants that are uploaded once.
#include "base/hash.hpp"
#include "program/lowering/families.hpp"
#include "program/lowering/loop.hpp"
#include "program/lowering/matmul_kernels.hpp"

#include <fmt/format.h>

namespace hekla::program {

namespace {

using graph::Op;

Storage storage_of(graph::Kind kind) { return graph::is_float(kind) ? Storage::f32 : Storage::i32; }

void put(std::vector<std::byte>& to, graph::Kind kind, double value) {
    std::byte bytes[4];
    if (graph::is_float(kind)) {
        const auto x = static_cast<float>(value);
        std::memcpy(bytes, &x, sizeof x);
    } else {
        const auto x = static_cast<int32_t>(value);
        std::memcpy(bytes, &x, sizeof x);
    }
    to.insert(to.end(), bytes, bytes + 4);
}

// Returns the constant; equal constants are shared.
View constant_of(Lowering& lowering, graph::Kind kind, const graph::Shape& shape, std::vector<std::byte> content) {
    const std::string name = fmt::format("constant {} {}", kind_name(kind), to_hex(hash128(content)));
    const graph::Shape flat{static_cast<int64_t>(content.size() / 4)};
    View view = lowering.constant(name, flat, storage_of(kind), std::move(content));
    view.shape = shape;
    view.strides = shape.strides();
    return view;
}

View sequence(Lowering& lowering, int64_t length, int64_t start, int64_t step) {
    std::vector<std::byte> content;
    for (int64_t i = 0; i < length; ++i) put(content, graph::Kind::int32, static_cast<double>(start + i * step));
    return constant_of(lowering, graph::Kind::int32, graph::Shape{length}, std::move(content));
}

// Returns whether a linear reads the weight in the order in which it is stored by panels.
bool reads_panels(const graph::Node& node, std::size_t input, const StoredAs& stored) {
    return node.op == Op::linear && input == 1 && (node.integer("input_first") == 0) == stored.transposed;
}

// A weight that is stored by panels is read so by linears; other readers get a copy of it, row by row.
View parameter_of(Lowering& lowering, graph::ValueId value, const std::string& name) {
    const graph::Shape& shape = lowering.graph->shape(value);
    const View rows = lowering.parameter(name, shape);
    const auto found = lowering.options.parameters.find(name);
    if (found == lowering.options.parameters.end() || found->second.panel == 0) return rows;
    const StoredAs& stored = found->second;
    const int64_t k = shape[stored.transposed ? 1 : 0], n = shape[stored.transposed ? 0 : 1], width = stored.panel;
    View panels = rows;
    panels.shape = {n / width, k, width};
    panels.strides = panels.shape.strides();
    if (panel_columns(lowering.limits) == width) lowering.panels.emplace(value, PanelWeight{panels, stored.transposed});
    bool copied = !lowering.panels.contains(value);
    for (const auto& [output, from] : lowering.graph->outputs) copied = copied || from == value;
    for (graph::NodeId id = 0; id < lowering.graph->nodes.size(); ++id) {
        const graph::Node& node = lowering.graph->nodes[id];
        for (std::size_t i = 0; lowering.needed[id] && i < node.inputs.size(); ++i)
            copied = copied || (node.inputs[i] == value && !reads_panels(node, i, stored));
    }
    if (!copied) return rows; // which nothing reads
    View copy = lowering.contiguous(
        transposed(panels, stored.transposed ? std::vector<int64_t>{0, 2, 1} : std::vector<int64_t>{1, 0, 2}));
    copy.shape = shape;
    copy.strides = shape.strides();
    return copy;
}

} // namespace

Status lower_leaf(Lowering& lowering, graph::NodeId id) {
    const graph::Graph& graph = *lowering.graph;
    const graph::Node& node = graph.nodes[id];
    const graph::ValueId output = node.outputs[0];
    const graph::Kind kind = graph.kind(output);
    const graph::Shape& shape = graph.shape(output);
    View& view = lowering.views[output];
    switch (node.op) {
    case Op::input: {
        const std::string& field = node.text("field");
        if (const auto stored = lowering.options.store_inputs.find(field);
            stored != lowering.options.store_inputs.end()) {
            view = lowering.stored(stored->second, shape, storage_of(kind));
            break;
        }
        const auto state = lowering.options.state_inputs.find(field);
        view = state == lowering.options.state_inputs.end()
                   ? lowering.named(ResourceKind::input, field, shape, storage_of(kind))
                   : lowering.named(ResourceKind::state, state->second, shape, storage_of(kind));
        break;
    }
    case Op::parameter: view = parameter_of(lowering, output, node.text("name")); break;
    case Op::buffer: {
        view = lowering.named(ResourceKind::state, buffer_state(node.text("name")), shape, storage_of(kind));
        std::vector<std::byte> content;
        for (const double value : node.reals("value")) put(content, kind, value);
        lowering.resources[view.resource].content = std::move(content);
        break;
    }
    case Op::constant: {
        std::vector<std::byte> content;
        for (const double value : node.reals("value")) put(content, kind, value);
        if (content.empty()) put(content, kind, 0); // an empty tensor still needs an address
        view = constant_of(lowering, kind, shape, std::move(content));
        break;
    }
    case Op::fill: {
        std::vector<std::byte> content;
        put(content, kind, node.real("value"));
        view = constant_of(lowering, kind, graph::Shape{}, std::move(content));
        view = broadcast_view(view, shape);
        break;
    }
    case Op::iota:
        view = sequence(lowering, node.integer("length"), node.integer("start"), node.integer("step"));
        break;
    case Op::positions: view = broadcast_view(sequence(lowering, node.integer("length"), 0, 1), shape); break;
    case Op::step_scalar:
        view = lowering.step_scalar(node.text("name"), static_cast<float>(node.real("initial")));
        break;
    default: return internal_error("not a leaf");
    }
    return {};
}

} // namespace hekla::program
