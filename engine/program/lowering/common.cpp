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

Dispatch subgroup_dispatch(const Lowering& lowering, std::string shader, std::initializer_list<uint32_t> constants) {
    Dispatch dispatch;
    dispatch.shader = std::move(shader);
    dispatch.constants = {lanes(lowering)};
    dispatch.constants.insert(dispatch.constants.end(), constants);
    dispatch.subgroup_size = lanes(lowering);
    return dispatch;
}

void set_type(Dispatch& dispatch, const View& view, uint32_t width) {
    const bool has_16_bit = bytes_of(view.storage) == 2;
    set_variant(dispatch, width, has_16_bit);
    if (has_16_bit) dispatch.constants.push_back(static_cast<uint32_t>(view.storage));
}

void set_variant(Dispatch& dispatch, uint32_t width, bool has_16_bit) {
    if (width == 4) dispatch.shader += has_16_bit ? ".fours_16" : ".fours";
    if (width != 4 && has_16_bit) dispatch.shader += ".16";
}

RowNumbers row_numbers(Lowering& lowering, const View& view) {
    const Loop loop = make_loop(std::span(&view, 1));
    if (loop.uniform(0)) return {view, 0};
    if (loop.rank() == 1 && loop.strides[0][0] > 0) return {view, word(loop.strides[0][0])};
    return {lowering.contiguous(view), 1};
}

uint32_t load_width(const Lowering& lowering, int64_t width, std::initializer_list<const Rows*> rows,
                    std::initializer_list<const View*> dense) {
    int64_t all = width | 4; // its lowest bit is that of the least aligned number
    for (const Rows* r : rows) all |= r->stride | static_cast<int64_t>(r->view.offset);
    for (const View* view : dense)
        if (view->resource != 0) all |= static_cast<int64_t>(view->offset);
    return lowering.limits.kernels_of_gpus() && width > 0 && all % 4 == 0 ? 4 : all % 2 == 0 && width > 0 ? 2 : 1;
}

uint32_t held_parts(const Lowering& lowering, int64_t width, uint32_t load_width, uint32_t rows) {
    if (load_width != 4) return 0;
    const int64_t parts = divide_up(width, 4 * int64_t{lowering.limits.subgroup_size});
    return parts * rows <= (lowering.limits.many_registers ? 16 : 8) ? static_cast<uint32_t>(parts) : 0;
}

View factor_view(Lowering& lowering, graph::ValueId value) {
    const View& view = lowering.view(value);
    return lowering.graph->kind(value) == graph::Kind::float_ ? lowering.as_16_bit(view) : view;
}

} // namespace hekla::program
