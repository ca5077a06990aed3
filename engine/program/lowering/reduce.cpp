// sum, mean, max, logsumexp and argmax over any axes.
#include "program/lowering/common.hpp"

#include <algorithm>
#include <limits>

namespace hekla::program {

namespace {

using graph::Op;

using namespace kernels::reduce; // kSum kMaximum kLogSumExp kArgmax

struct Reduction {
    uint32_t what = kSum;
    float factor = 1;
    bool integer = false;
};

// Reduces dense rows into `y` (dense).
void reduce_rows(Lowering& lowering, const Rows& x, const View& y, const Reduction& how) {
    // A long row is split if the partial results can be combined.
    const bool can_split = how.what == kSum || how.what == kMaximum;
    const int64_t chunk = can_split && x.width > 16384 ? 4096 : x.width;
    const int64_t chunks = divide_up(x.width, chunk);
    const View parts = chunks > 1 ? lowering.allocate({x.rows, chunks}, Storage::f32, "parts of a reduction") : y;
    const uint32_t w = load_width(lowering, x.width, {&x});
    Dispatch dispatch = subgroup_dispatch(lowering, "reduce/rows", {w, how.what});
    set_type(dispatch, x.view, w);
    dispatch.record = make_record(RowsRecord{.x = x.view,
                                             .y = parts,
                                             .rows = word(x.rows),
                                             .width = word(x.width),
                                             .stride = word(x.stride),
                                             .chunk = word(chunk),
                                             .chunks = word(chunks),
                                             .factor = chunks > 1 ? 1.0f : how.factor});
    dispatch.groups = row_groups(lowering.limits, x.rows * chunks);
    dispatch.bytes = static_cast<double>(x.view.bytes());
    lowering.append(std::move(dispatch));
    if (chunks == 1) return;
    Rows rest;
    rest.view = parts;
    rest.rows = x.rows;
    rest.width = rest.stride = chunks;
    reduce_rows(lowering, rest, y, how);
}

struct Walk {
    std::vector<int64_t> dims;
    std::vector<int64_t> strides;

    graph::Strides padded() const {
        graph::Strides result;
        for (std::size_t d = 0; d < strides.size(); ++d) result[d] = strides[d];
        return result;
    }
};

// Sums dense columns, lanes along the columns: rows [rows, count], `stride` apart.
void sum_down(Lowering& lowering, const View& x, int64_t count, int64_t rows, int64_t stride, const View& y,
              float factor) {
    const Rows columns{.view = x, .width = count, .stride = stride};
    const uint32_t w = load_width(lowering, count, {&columns}, {&y});
    const int64_t column_groups = divide_up(count, int64_t{lanes(lowering)} * w);
    // A GPU reads at full speed only with many subgroups a core; few rows are added by a single dispatch.
    const int64_t wanted = lowering.limits.cpu ? 4 : 16 * int64_t{lowering.limits.cores};
    const int64_t shortest = lowering.limits.cpu ? 32 : 128;
    int64_t chunks = std::clamp<int64_t>(std::min(wanted / column_groups, rows / shortest), 1, 1024);
    const int64_t chunk = divide_up(divide_up(rows, chunks), 4) * 4;
    chunks = divide_up(rows, chunk);
    const View parts = chunks > 1 ? lowering.allocate({chunks, count}, Storage::f32, "parts of a reduction") : y;
    Dispatch dispatch = subgroup_dispatch(lowering, "reduce/down", {w});
    set_type(dispatch, x, w);
    dispatch.record = make_record(DownRecord{.x = x,
                                             .y = parts,
                                             .count = word(count),
                                             .rows = word(rows),
                                             .stride = word(stride),
                                             .chunk = word(chunk),
                                             .column_groups = word(column_groups),
                                             .factor = chunks > 1 ? 1.0f : factor});
    dispatch.groups = static_cast<uint64_t>(column_groups * chunks);
    dispatch.bytes = static_cast<double>(x.bytes());
    lowering.append(std::move(dispatch));
    if (chunks > 1) sum_down(lowering, parts, count, chunks, count, y, factor);
}

// Reduces any axes: kept and walked dimensions of x, in their order.
void reduce_columns(Lowering& lowering, const View& x, const Walk& kept, const Walk& walked, const View& y,
                    const Reduction& how) {
    int64_t count = 1;
    for (const int64_t d : kept.dims) count *= d;
    int64_t length = 1;
    for (const int64_t d : walked.dims) length *= d;
    const bool down = kept.dims.size() <= 1 && (kept.dims.empty() || kept.strides[0] == 1) && walked.dims.size() <= 1 &&
                      (walked.dims.empty() || walked.strides[0] >= 0);
    if (down && how.what == kSum && !how.integer && y.contiguous()) {
        sum_down(lowering, x, count, length, walked.dims.empty() ? count : walked.strides[0], y, how.factor);
        return;
    }
    const int64_t groups = divide_up(count, 32);
    int64_t chunk = length;
    if (how.what == kSum || how.what == kMaximum) {
        const int64_t wanted = lowering.limits.cpu ? 8 : 1024;
        const int64_t chunks = std::clamp<int64_t>(std::min(wanted / groups, length / 64), 1, 1024);
        chunk = divide_up(length, chunks);
    }
    const int64_t chunks = divide_up(length, chunk);
    const View parts = chunks > 1 ? lowering.allocate({chunks, count}, y.storage, "parts of a reduction") : y;
    Dispatch dispatch;
    const bool half = bytes_of(x.storage) == 2;
    dispatch.shader = how.integer ? "reduce/columns.int" : half ? "reduce/columns.16" : "reduce/columns.float";
    dispatch.constants = {how.what, word(static_cast<int64_t>(kept.dims.size())),
                          word(static_cast<int64_t>(walked.dims.size()))};
    if (half) dispatch.constants.push_back(static_cast<uint32_t>(x.storage));
    ColumnsRecord record{.x = x,
                         .y = parts,
                         .count = word(count),
                         .many = word(length),
                         .chunk = word(chunk),
                         .groups_per_chunk = word(groups),
                         .factor = chunks > 1 ? 1.0f : how.factor};
    set_dims(kept.dims, record.kept, record.kept_factors, record.kept_shifts);
    set_strides(kept.padded(), record.kept_strides);
    set_dims(walked.dims, record.walked, record.walked_factors, record.walked_shifts);
    set_strides(walked.padded(), record.walked_strides);
    dispatch.record = make_record(record);
    dispatch.groups = static_cast<uint64_t>(groups * chunks);
    dispatch.bytes = static_cast<double>(x.bytes());
    lowering.append(std::move(dispatch));
    if (chunks == 1) return;
    reduce_columns(lowering, parts, {{count}, {1}}, {{chunks}, {count}}, y, how);
}

void reduce(Lowering& lowering, const View& x, const std::vector<bool>& reduced, const View& y, const Reduction& how) {
    Walk kept;
    Walk walked;
    int64_t length = 1;
    for (int d = 0; d < x.shape.rank(); ++d) {
        const auto at = static_cast<std::size_t>(d);
        Walk& walk = reduced[at] ? walked : kept;
        if (reduced[at]) length *= x.shape[d];
        if (x.shape[d] == 1) continue;
        // Neighbors that are contiguous are merged.
        if (!walk.dims.empty() && d > 0 && reduced[at - 1] == reduced[at] &&
            walk.strides.back() == x.strides[at] * x.shape[d]) {
            walk.dims.back() *= x.shape[d];
            walk.strides.back() = x.strides[at];
        } else {
            walk.dims.push_back(x.shape[d]);
            walk.strides.push_back(x.strides[at]);
        }
    }
    // Lanes along the row if the reduced elements are dense and there are enough of them.
    const bool dense = walked.dims.size() == 1 && walked.strides[0] == 1 && kept.dims.size() <= 1;
    const int64_t stride = kept.dims.empty() ? length : kept.strides[0];
    const bool places = how.what != kArgmax || length < (int64_t{1} << 24); // lanes exchange indices as float32
    if (dense && !how.integer && length >= 32 && stride >= 0 && places) {
        Rows rows;
        rows.view = x;
        rows.rows = y.elements();
        rows.width = length;
        rows.stride = stride;
        reduce_rows(lowering, rows, y, how);
    } else {
        reduce_columns(lowering, x, kept, walked, y, how);
    }
}

} // namespace

void reduce_sum(Lowering& lowering, const View& from, const std::vector<bool>& reduced, const View& to) {
    reduce(lowering, from, reduced, to, {});
}

void sum_chunks(Lowering& lowering, const View& from, const View& to, int64_t chunks) {
    const int64_t count = to.elements();
    reduce_columns(lowering, from, {{count}, {1}}, {{chunks}, {count}}, to, {});
}

Status lower_reduce(Lowering& lowering, graph::NodeId id) {
    const graph::Graph& graph = *lowering.graph;
    const graph::Node& node = graph.nodes[id];
    const View x = lowering.view(node.inputs[0]);
    const int rank = x.shape.rank();
    std::vector<bool> reduced(static_cast<std::size_t>(rank), false);
    if (node.op == Op::argmax) {
        const int64_t axis = node.integer("axis");
        reduced[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] = true;
    } else {
        for (const int64_t axis : node.ints("axes"))
            reduced[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] = true;
    }
    Reduction how;
    how.integer = !graph::is_float(graph.kind(node.inputs[0]));
    how.what = node.op == Op::max         ? kMaximum
               : node.op == Op::argmax    ? kArgmax
               : node.op == Op::logsumexp ? kLogSumExp
                                          : kSum;
    int64_t length = 1;
    for (int d = 0; d < rank; ++d)
        if (reduced[static_cast<std::size_t>(d)]) length *= x.shape[d];
    const View y = make_output(lowering, id, 0);
    if (y.elements() == 0) return {};
    if (node.op == Op::mean) how.factor = static_cast<float>(1.0 / static_cast<double>(length));
    if (length == 0) {
        if (node.op == Op::sum) {
            lowering.fill_zero(y);
            return {};
        }
        return invalid_argument("a reduction over no elements has no value");
    }
    reduce(lowering, x, reduced, y, how);
    return {};
}

} // namespace hekla::program
