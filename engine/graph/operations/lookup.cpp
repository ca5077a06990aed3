// Lookups by index.
#include "graph/gradient/backward.hpp"
#include "graph/operations/rules.hpp"
#include "graph/operations/shape_rule.hpp"
#include "graph/reference/call.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <set>

namespace hekla::graph {
namespace {

Result<Outputs> embedding_outputs(const Rule& r) {
    HK_TRY(r.rank(0, 2, "[V, D]"));
    Shape y = r.shape(1);
    if (y.rank() == kMaxRank) return r.error("ids {} have too many dimensions", r.text(1));
    y.push_back(r.shape(0)[1]);
    HK_TRY(sizes_ok(r, y.dims()));
    return one(r.kind(0), y);
}

void embedding_gradient(Backward& b) {
    b.give(0, b.builder()(Op::embedding_gradient, {b.dy(), b.x(1)},
                          {{"rows", b.shape(b.x(0))[0]}, {"no_gradient_id", b.node().integer("no_gradient_id")}}));
}

Status run_embedding(const Call& call) {
    const Tensor& table = call.in(0);
    const Tensor& ids = call.in(1);
    const int64_t width = table.shape[1];
    HK_TRY(indices_ok(ids, "ids", table.shape[0], "the table"));
    for (int64_t i = 0; i < ids.shape.elements(); ++i)
        std::copy_n(table.data.data() + index_at(ids, i) * width, width, call.out().data.data() + i * width);
    return {};
}

Result<Outputs> embedding_gradient_outputs(const Rule& r) {
    Shape rows = r.shape(1);
    if (r.shape(0).rank() != rows.rank() + 1) return r.error("dy {} and ids {} do not fit", r.text(0), r.text(1));
    rows.push_back(r.shape(0)[-1]);
    HK_TRY(r.expect(0, rows));
    const Shape table{r.node.integer("rows"), r.shape(0)[-1]};
    HK_TRY(sizes_ok(r, table.dims()));
    return one(Kind::float32, table);
}

// The table's gradient is a sum of rows of x, without those of row no_gradient_id, which may lie outside of the table.
void embedding_gradient_gradient(Backward& b) {
    const ValueId dy = b.dy();
    const ValueId ids = b.x(1);
    const auto integer = [&](int64_t value) {
        return b.builder().fill(Kind::int32, Shape{}, static_cast<double>(value));
    };
    const ValueId excluded = b.compare(ids, Relation::equal, integer(b.node().integer("no_gradient_id")));
    const ValueId rows = b.builder()(Op::embedding, {dy, b.where(excluded, integer(0), ids)});
    Shape column = b.shape(ids);
    column.push_back(1);
    b.give(0, b.where(b.reshape(excluded, column), b.number(rows, 0.0), rows));
}

Status run_embedding_gradient(const Call& call) {
    const Tensor& ids = call.in(1);
    Tensor& dtable = call.out();
    const int64_t width = dtable.shape[1];
    const int64_t excluded = call.node.integer("no_gradient_id");
    HK_TRY(indices_ok(ids, "ids", dtable.shape[0], "the table", excluded));
    for (int64_t i = 0; i < ids.shape.elements(); ++i) {
        if (index_at(ids, i) == excluded) continue;
        double* row = dtable.data.data() + index_at(ids, i) * width;
        const double* dy = call.data(0) + i * width;
        for (int64_t j = 0; j < width; ++j) row[j] += dy[j];
    }
    return {};
}

// Returns the shape of gather's result: [B..., K..., R...] for x [B..., N, R...] and indices [B..., K...].
Result<Shape> gathered(const Rule& r) {
    const int64_t batch = r.node.integer("batch_dimensions");
    const Shape &x = r.shape(0), &indices = r.shape(1);
    if (batch < 0 || batch > indices.rank() || batch >= x.rank())
        return r.error("{} batch dimensions of x {} and indices {}", batch, r.text(0), r.text(1));
    for (int i = 0; i < batch; ++i)
        if (x[i] != indices[i]) return r.error("x {} and indices {} differ in dimension {}", r.text(0), r.text(1), i);
    std::vector<int64_t> y = indices.vector();
    for (int i = static_cast<int>(batch) + 1; i < x.rank(); ++i) y.push_back(x[i]);
    HK_TRY(sizes_ok(r, y));
    return Shape(y);
}

Result<Outputs> gather_outputs(const Rule& r) {
    HK_ASSIGN(const Shape y, gathered(r));
    return one(r.kind(0), y);
}

void gather_gradient(Backward& b) {
    const ValueId dy = b.dy();
    const int64_t batch = b.node().integer("batch_dimensions");
    const ValueId zeros = b.builder().fill(b.kind(dy), b.shape(b.x(0)), 0.0);
    b.give(0, b.builder()(Op::scatter_add, {zeros, b.x(1), dy}, {{"batch_dimensions", batch}}));
}

// x [batch, rows, width] and indices [batch, count].
struct Gather {
    int64_t batch = 1, rows = 1, count = 1, width = 1;
    Gather(const Shape& x, const Shape& indices, int64_t batch_dimensions) {
        for (int i = 0; i < indices.rank(); ++i) (i < batch_dimensions ? batch : count) *= indices[i];
        rows = x[static_cast<int>(batch_dimensions)];
        for (int i = static_cast<int>(batch_dimensions) + 1; i < x.rank(); ++i) width *= x[i];
    }
};

Status run_gather(const Call& call) {
    const Gather size(call.in(0).shape, call.in(1).shape, call.node.integer("batch_dimensions"));
    HK_TRY(indices_ok(call.in(1), "indices", size.rows, "x"));
    double* y = call.out().data.data();
    for (int64_t b = 0; b < size.batch; ++b)
        for (int64_t i = 0; i < size.count; ++i, y += size.width)
            std::copy_n(call.data(0) + (b * size.rows + index_at(call.in(1), b * size.count + i)) * size.width,
                        size.width, y);
    return {};
}

// Returns the place of an index that an earlier one of its batch equals, if there is one. The batches have equal size.
std::optional<std::size_t> repeated_index(std::span<const double> indices, int64_t batches) {
    const std::size_t count = batches == 0 ? 0 : indices.size() / static_cast<std::size_t>(batches);
    std::set<double> seen;
    for (std::size_t i = 0; i < indices.size(); ++i) {
        if (i % count == 0) seen.clear();
        if (!seen.insert(indices[i]).second) return i;
    }
    return std::nullopt;
}

Result<Outputs> scatter_outputs(const Rule& r) {
    HK_ASSIGN(const Shape values, gathered(r));
    HK_TRY(r.expect(2, values));
    if (is_float(r.kind(0)) != is_float(r.kind(2)))
        return r.error("x is {} and values are {}: cast one of them", kind_name(r.kind(0)), kind_name(r.kind(2)));
    const Node& indices = r.graph.producer(r.node.inputs[1]);
    if (r.node.op == Op::scatter && indices.op == Op::constant) {
        int64_t batches = 1;
        for (int i = 0; i < r.node.integer("batch_dimensions"); ++i) batches *= r.shape(1)[i];
        const std::vector<double>& given = indices.reals("value");
        if (const std::optional<std::size_t> place = repeated_index(given, batches))
            return r.error("element {} of indices {} is {} again; expected every row once", *place, r.text(1),
                           given[*place]);
    }
    return one(joined(r.kind(0), r.kind(2)), r.shape(0));
}

void scatter_gradient(Backward& b) {
    const ValueId dy = b.dy();
    const int64_t batch = b.node().integer("batch_dimensions");
    if (b.wants(2)) b.give(2, b.builder()(Op::gather, {dy, b.x(1)}, {{"batch_dimensions", batch}}));
    if (!b.wants(0)) return;
    if (b.node().op == Op::scatter_add) {
        b.give(0, dy);
    } else {
        const ValueId zeros = b.builder().fill(b.kind(dy), b.shape(b.x(2)), 0.0);
        b.give(0, b.builder()(Op::scatter, {dy, b.x(1), zeros}, {{"batch_dimensions", batch}}));
    }
}

Status run_scatter(const Call& call) {
    const Tensor& indices = call.in(1);
    const Gather size(call.out().shape, indices.shape, call.node.integer("batch_dimensions"));
    const bool adds = call.node.op == Op::scatter_add;
    HK_TRY(indices_ok(indices, "indices", size.rows, "x"));
    if (!adds)
        if (const std::optional<std::size_t> place = repeated_index(indices.data, size.batch))
            return invalid_argument(fmt::format("element {} of indices {} is {} again, expected every row of x once",
                                                *place, indices.shape.text(), indices.data[*place]));
    std::vector<double>& y = call.out().data;
    y = call.in(0).data;
    const double* values = call.data(2);
    for (int64_t b = 0; b < size.batch; ++b)
        for (int64_t i = 0; i < size.count; ++i, values += size.width) {
            double* row = y.data() + (b * size.rows + index_at(indices, b * size.count + i)) * size.width;
            for (int64_t j = 0; j < size.width; ++j) row[j] = adds ? row[j] + values[j] : values[j];
        }
    if (call.out().kind == Kind::int32)
        for (double& value : y) value = wrapped(static_cast<int64_t>(value));
    return {};
}

} // namespace

const OperationRules embedding_rules{embedding_outputs, embedding_gradient, run_embedding};
const OperationRules embedding_gradient_rules{embedding_gradient_outputs, embedding_gradient_gradient,
                                              run_embedding_gradient};
const OperationRules gather_rules{gather_outputs, gather_gradient, run_gather};
const OperationRules scatter_add_rules{scatter_outputs, scatter_gradient, run_scatter};
const OperationRules scatter_rules{scatter_outputs, scatter_gradient, run_scatter};
const OperationRules one_hot_rules{}; // Builder::emit() adds others instead

} // namespace hekla::graph
