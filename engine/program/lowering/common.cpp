#include "program/lowering/common.hpp"

#include <fmt/format.h>

namespace hekla::program {

Rows as_rows(Lowering& lowering, const View& given) {
    Rows rows;
    rows.view = given;
    const int rank = given.shape.rank();
    rows.width = rank == 0 ? 1 : given.shape[-1];
    rows.rows = rows.width == 0 ? 0 : given.elements() / rows.width;
    rows.stride = rows.width;
    if (rank == 0 || given.elements() == 0) return rows;
    const auto last = static_cast<std::size_t>(rank - 1);
    bool fits = given.shape[-1] == 1 || given.strides[last] == 1;
    int64_t stride = -1; // of the rows processed so far, starting at the innermost dimension
    int64_t walked = 1;
    for (int d = rank - 2; d >= 0; --d) {
        if (given.shape[d] == 1) continue;
        const int64_t here = given.strides[static_cast<std::size_t>(d)];
        if (stride < 0)
            stride = here;
        else if (here != stride * walked)
            fits = false;
        if (here < 0) fits = false;
        walked *= given.shape[d];
    }
    if (!fits) {
        rows.view = lowering.contiguous(given);
        return rows;
    }
    if (stride >= 0) rows.stride = stride;
    return rows;
}

View make_output(Lowering& lowering, graph::NodeId id, std::size_t index) {
    const graph::Graph& graph = *lowering.graph;
    const graph::Node& node = graph.nodes[id];
    const graph::ValueId value = node.outputs[index];
    const Storage storage = graph::is_float(graph.kind(value)) ? Storage::f32 : Storage::i32;
    const View view = lowering.allocate(graph.shape(value), storage, graph::info(node).name);
    lowering.views[value] = view;
    return view;
}

void set_type(Dispatch& dispatch, const View& view) {
    if (bytes_of(view.storage) == 4) return;
    dispatch.shader += ".16";
    dispatch.constants.push_back(static_cast<uint32_t>(view.storage));
}

RowNumbers row_numbers(Lowering& lowering, const View& view) {
    const Loop loop = make_loop(std::span(&view, 1));
    if (loop.uniform(0)) return {view, 0};
    if (loop.rank() == 1 && loop.strides[0][0] > 0) return {view, word(loop.strides[0][0])};
    return {lowering.contiguous(view), 1};
}

uint32_t load_width(int64_t width, std::initializer_list<const Rows*> rows) {
    for (const Rows* r : rows)
        if (!even({width, r->stride, static_cast<int64_t>(r->view.offset)})) return 1;
    return width % 2 == 0 && width > 0 ? 2 : 1;
}

View factor_view(Lowering& lowering, graph::ValueId value) {
    const View& view = lowering.view(value);
    return lowering.graph->kind(value) == graph::Kind::float_ ? lowering.as_16_bit(view) : view;
}

} // namespace hekla::program
