// embedding and gather, and by sorted segments embedding's gradient and scatters: no atomics, sums in the order of the
// tokens.
#include "program/lowering/common.hpp"
#include "program/lowering/epilogue.hpp"

namespace hekla::program {

namespace {

using graph::Op;

struct Lookup {
    int64_t batches = 1;
    int64_t per_batch = 1; // indices per batch
    int64_t rows = 0;      // of the table, per batch
    int64_t width = 1;     // elements per row
};

// Computes y [batches * per_batch, width] (dense) from a table whose rows are dense.
void look_up(Lowering& lowering, const View& table, int64_t row_stride, int64_t batch_stride, const View& ids,
             const View& y, const Lookup& l) {
    const Rows in{.view = table, .width = l.width, .stride = row_stride | batch_stride}; // their common alignment
    const uint32_t w = load_width(lowering, l.width, {&in}, {&y});
    Dispatch dispatch = subgroup_dispatch(lowering, "embedding/lookup", {w});
    set_type(dispatch, table, w);
    dispatch.record = make_record(kernels::embedding::LookupRecord{.table = table,
                                                                   .ids = ids,
                                                                   .y = y,
                                                                   .rows = word(l.batches * l.per_batch),
                                                                   .width = word(l.width),
                                                                   .table_rows = word(l.rows),
                                                                   .table_stride = word(row_stride),
                                                                   .per_batch = word(l.per_batch),
                                                                   .batch_stride = word(batch_stride)});
    dispatch.groups = row_groups(lowering.limits, l.batches * l.per_batch);
    dispatch.bytes = 2.0 * static_cast<double>(y.bytes());
    lowering.append(std::move(dispatch));
}

// Joins the rows of dy by their ids into dtable [batches, rows, width] (dense). mode: a constant of embedding/record.h.
void join_by_id(Lowering& lowering, const Rows& dy, const View& ids, const View& dtable, const Lookup& l,
                int64_t no_gradient_id, uint32_t mode) {
    const int64_t tokens = l.batches * l.per_batch;
    if (tokens == 0 || l.width == 0) return;
    const View order = lowering.allocate({l.batches, l.per_batch}, Storage::i32, "order of ids");
    const int64_t s = lanes(lowering);

    Dispatch sort = subgroup_dispatch(lowering, "embedding/sort");
    sort.record = make_record(kernels::embedding::SortRecord{
        .ids = ids, .order = order, .count = word(l.per_batch), .groups_per_batch = word(divide_up(l.per_batch, s))});
    sort.groups = static_cast<uint64_t>(l.batches * divide_up(l.per_batch, s));
    sort.flops = static_cast<double>(tokens) * static_cast<double>(l.per_batch);
    lowering.append(std::move(sort));

    const uint32_t w = load_width(lowering, l.width, {&dy}, {&dtable});
    const int64_t columns = divide_up(l.width, s * w * 4);
    Dispatch sum = subgroup_dispatch(lowering, "embedding/segments", {w, mode});
    if (dtable.storage == Storage::i32) sum.constants.push_back(1);
    set_variant(sum, w, false);
    sum.record = make_record(kernels::embedding::SegmentsRecord{.dy = dy.view,
                                                                .ids = ids,
                                                                .order = order,
                                                                .dtable = dtable,
                                                                .count = word(l.per_batch),
                                                                .width = word(l.width),
                                                                .dy_stride = word(dy.stride),
                                                                .column_groups = word(columns),
                                                                .rows = static_cast<int32_t>(l.rows),
                                                                .no_gradient_id = static_cast<int32_t>(no_gradient_id),
                                                                .batch_rows = word(l.rows)});
    sum.groups = static_cast<uint64_t>(tokens * columns);
    sum.bytes = static_cast<double>(dy.view.bytes()) * (mode == kernels::embedding::kAddRows ? 3 : 2);
    lowering.append(std::move(sum));
}

// Merges the dimensions from `keep` on: [kept dimensions..., width].
View merged_tail(Lowering& lowering, const View& view, int keep) {
    View dense = lowering.contiguous(view);
    graph::Shape shape;
    int64_t width = 1;
    for (int d = 0; d < view.shape.rank(); ++d) {
        if (d < keep)
            shape.push_back(view.shape[d]);
        else
            width *= view.shape[d];
    }
    shape.push_back(width);
    dense.shape = shape;
    dense.strides = shape.strides();
    return dense;
}

void embedding_gradient(Lowering& lowering, const graph::Node& node, const View& dtable, uint32_t mode) {
    const Rows dy = as_rows(lowering, lowering.view(node.inputs[0]));
    const View ids = lowering.contiguous(lowering.view(node.inputs[1]));
    Lookup l;
    l.per_batch = ids.elements();
    l.rows = node.integer("rows");
    l.width = dy.width;
    join_by_id(lowering, dy, ids, dtable, l, node.integer("no_gradient_id"), mode);
}

} // namespace

void lower_embedding_gradient(Lowering& lowering, const FusedEpilogue& epilogue) {
    View dtable = lowering.view(epilogue.residual);
    // Nothing else reads the other gradient, so its memory becomes the result's.
    if (lowering.resources[dtable.resource].kind != ResourceKind::arena || !dtable.contiguous()) {
        const View copy = lowering.allocate(dtable.shape, Storage::f32, "gradient of a table");
        lowering.copy(dtable, copy);
        dtable = copy;
    }
    lowering.views[epilogue.output] = dtable;
    embedding_gradient(lowering, lowering.graph->nodes[epilogue.node], dtable, kernels::embedding::kAddRows);
}

Status lower_embedding(Lowering& lowering, graph::NodeId id) {
    const graph::Node& node = lowering.graph->nodes[id];
    Lookup l;
    if (node.op == Op::embedding) {
        const View ids = lowering.contiguous(lowering.view(node.inputs[1]));
        const View y = make_output(lowering, id, 0);
        if (y.elements() == 0) return {};
        const Rows table = as_rows(lowering, lowering.view(node.inputs[0]));
        l.per_batch = ids.elements();
        l.rows = table.rows;
        l.width = table.width;
        look_up(lowering, table.view, table.stride, 0, ids, y, l);
        return {};
    }
    const View dtable = make_output(lowering, id, 0);
    if (dtable.elements() == 0) return {};
    lowering.fill_zero(dtable);
    embedding_gradient(lowering, node, dtable, kernels::embedding::kSumRows);
    return {};
}

Status lower_gather(Lowering& lowering, graph::NodeId id) {
    const graph::Graph& graph = *lowering.graph;
    const graph::Node& node = graph.nodes[id];
    const int batch_dims = static_cast<int>(node.integer("batch_dimensions"));
    const View indices = lowering.contiguous(lowering.view(node.inputs[1]));
    Lookup l;
    for (int d = 0; d < batch_dims; ++d) l.batches *= indices.shape[d];
    l.per_batch = l.batches == 0 ? 0 : indices.elements() / l.batches;
    if (node.op == Op::gather) {
        const View y = make_output(lowering, id, 0);
        if (y.elements() == 0) return {};
        const View table = merged_tail(lowering, lowering.view(node.inputs[0]), batch_dims + 1);
        l.rows = table.shape[batch_dims];
        l.width = table.shape[-1];
        if (l.rows == 0) return invalid_argument("gather from an axis of length 0");
        look_up(lowering, table, l.width, l.rows * l.width, indices, y, l);
        return {};
    }
    const View y = make_output(lowering, id, 0);
    if (y.elements() == 0) return {};
    l.rows = y.shape[batch_dims];
    l.width = y.elements() / (l.batches * l.rows);
    const View values = merged_tail(lowering, lowering.view(node.inputs[2]), indices.shape.rank());
    Rows rows;
    rows.view = values;
    rows.rows = l.batches * l.per_batch;
    rows.width = rows.stride = l.width;
    const graph::Node& x = graph.producer(node.inputs[0]);
    const bool zero = x.op == Op::fill && x.real("value") == 0.0; // as in the gradient of gather
    if (zero)
        lowering.fill_zero(y);
    else
        lowering.copy(lowering.view(node.inputs[0]), y);
    using namespace kernels::embedding;
    join_by_id(lowering, rows, indices, y, l, -1, node.op == Op::scatter ? kReplaceRows : zero ? kSumRows : kAddRows);
    return {};
}

} // namespace hekla::program
