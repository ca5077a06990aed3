#include "program/lowering/concat.hpp"

#include "program/lowering/common.hpp"

#include <algorithm>

namespace hekla::program {

namespace {

using graph::Op;

// Returns the view of the concat's result, allocated on first use.
const View& result_of(Lowering& lowering, const graph::Node& concat) {
    View& view = lowering.views[concat.outputs[0]];
    if (view.resource == 0) {
        const graph::ValueId value = concat.outputs[0];
        const Storage storage =
            graph::is_float(lowering.graph->kind(value)) ? lowering.storage_of(value) : Storage::i32;
        view = lowering.allocate(lowering.graph->shape(value), storage, "concat");
    }
    return view;
}

// Returns the part of the result that holds an input.
View part_of(const Lowering& lowering, const graph::Node& concat, std::size_t input, const View& result) {
    const std::size_t axis = axis_of(concat, result.shape);
    int64_t start = 0;
    for (std::size_t i = 0; i < input; ++i) start += lowering.graph->shape(concat.inputs[i]).dims()[axis];
    return sliced(result, axis, start, lowering.graph->shape(concat.inputs[input]).dims()[axis], 1);
}

bool same(const View& a, const View& b) {
    if (a.resource != b.resource || a.offset != b.offset || a.shape != b.shape) return false;
    for (int d = 0; d < a.shape.rank(); ++d)
        if (a.shape[d] > 1 && a.strides[static_cast<std::size_t>(d)] != b.strides[static_cast<std::size_t>(d)])
            return false;
    return true;
}

std::vector<int64_t> inverse(const std::vector<int64_t>& permutation) {
    std::vector<int64_t> back(permutation.size());
    for (std::size_t d = 0; d < permutation.size(); ++d)
        back[static_cast<std::size_t>(permutation[d])] = static_cast<int64_t>(d);
    return back;
}

std::optional<View> find_place(Lowering& lowering, graph::ValueId value) {
    const graph::Graph& graph = *lowering.graph;
    for (graph::NodeId id = graph.value(value).node + 1; id < graph.nodes.size(); ++id) {
        const graph::Node& node = graph.nodes[id];
        const auto found = std::ranges::find(node.inputs, value);
        if (found == node.inputs.end() || !lowering.needed[id]) continue;
        if (node.op == Op::concat) {
            if (graph.shape(node.outputs[0]).elements() == 0) return std::nullopt;
            return part_of(lowering, node, static_cast<std::size_t>(found - node.inputs.begin()),
                           result_of(lowering, node));
        }
        if (node.op != Op::reshape && node.op != Op::transpose) continue;
        const std::optional<View> after = find_place(lowering, node.outputs[0]);
        if (!after) continue;
        if (node.op == Op::transpose) return transposed(*after, inverse(node.ints("permutation")));
        if (const std::optional<View> before = reshaped(*after, graph.shape(value))) return before;
    }
    return std::nullopt;
}

} // namespace

std::optional<View> place_in_concat(Lowering& lowering, graph::ValueId value) {
    std::optional<View> place = find_place(lowering, value);
    if (place && place->storage != lowering.storage_of(value)) place.reset();
    return place;
}

Status lower_concat(Lowering& lowering, graph::NodeId id) {
    const graph::Node& node = lowering.graph->nodes[id];
    const View result = result_of(lowering, node);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const View part = part_of(lowering, node, i, result);
        if (const View from = lowering.view(node.inputs[i]); !same(from, part)) lowering.copy(from, part);
    }
    return {};
}

} // namespace hekla::program
