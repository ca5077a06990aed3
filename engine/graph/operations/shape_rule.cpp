// Shape rules: from a node's inputs and attributes to the kinds and shapes of its outputs. Messages contain the
// operation, the given shapes, and what differs, like a compiler's.
#include "graph/operations/shape_rule.hpp"
#include "graph/operations/given_gradient.hpp"
#include "graph/operations/loop.hpp"
#include "graph/truncated_normal.hpp"
#include "graph/operations/windows.hpp"

#include <algorithm>
#include <fmt/ranges.h>
#include <limits>
#include <set>

namespace hekla::graph {
namespace {

Result<Outputs> pointwise(const Rule& r) {
    const std::size_t first = r.node.op == Op::where ? 1 : 0;
    Kind kind = r.kind(first);
    Shape shape = r.shape(0);
    for (std::size_t i = 1; i < r.node.inputs.size(); ++i) {
        const std::optional<Shape> both = broadcast_shapes(shape, r.shape(i));
        if (!both) return r.error("{} and {} do not broadcast to one shape", shape.text(), r.text(i));
        shape = *both;
        if (i > first) {
            if (is_float(kind) != is_float(r.kind(i)))
                return r.error("{} is {} and {} is {}: cast one of them", r.input_name(first), kind_name(kind),
                               r.input_name(i), kind_name(r.kind(i)));
            kind = joined(kind, r.kind(i));
        }
    }
    if (r.node.op == Op::compare) {
        const int64_t relation = r.node.integer("relation");
        if (relation < 0 || relation > 5) return r.error("relation {} is not 0 to 5", relation);
        kind = Kind::int32;
    }
    if (r.node.op == Op::cast) {
        const int64_t to = r.node.integer("kind");
        if (to < 0 || to > 2) return r.error("kind {} is not 0 (float), 1 (float32) or 2 (int32)", to);
        kind = static_cast<Kind>(to);
    }
    if (r.node.op == Op::dropout) {
        const double p = r.node.real("probability");
        if (!(p >= 0.0 && p < 1.0)) return r.error("probability {} is outside [0, 1)", p);
    }
    return one(kind, shape);
}

Result<Outputs> reshape(const Rule& r) {
    std::vector<int64_t> dims = r.node.ints("shape");
    int64_t known = 1;
    int open = -1;
    for (std::size_t i = 0; i < dims.size(); ++i) {
        if (dims[i] == -1) {
            if (open >= 0) return r.error("[{}] leaves more than one dimension open", fmt::join(dims, ", "));
            open = static_cast<int>(i);
        }
    }
    std::vector<int64_t> closed = dims;
    if (open >= 0) closed[static_cast<std::size_t>(open)] = 1;
    HK_TRY(sizes_ok(r, closed));
    for (const int64_t dim : closed) known *= dim;
    const int64_t all = r.shape(0).elements();
    if (open >= 0) {
        if (known == 0 || all % known != 0)
            return r.error("{} has {} elements, which [{}] cannot hold", r.text(0), all, fmt::join(dims, ", "));
        closed[static_cast<std::size_t>(open)] = all / known;
    } else if (known != all) {
        return r.error("{} has {} elements, [{}] has {}", r.text(0), all, fmt::join(dims, ", "), known);
    }
    return one(r.kind(0), Shape(closed));
}

Result<Outputs> transpose(const Rule& r) {
    const std::vector<int64_t>& permutation = r.node.ints("permutation");
    const Shape& x = r.shape(0);
    std::array<bool, kMaxRank> seen{};
    if (permutation.size() != static_cast<std::size_t>(x.rank()))
        return r.error("[{}] is not a permutation of the {} dimensions of {}", fmt::join(permutation, ", "), x.rank(),
                       x.text());
    Shape y = x;
    for (std::size_t i = 0; i < permutation.size(); ++i) {
        const int64_t from = permutation[i];
        if (from < 0 || from >= x.rank() || seen[static_cast<std::size_t>(from)])
            return r.error("[{}] is not a permutation of the {} dimensions of {}", fmt::join(permutation, ", "),
                           x.rank(), x.text());
        seen[static_cast<std::size_t>(from)] = true;
        y[static_cast<int>(i)] = x[static_cast<int>(from)];
    }
    return one(r.kind(0), y);
}

Result<Outputs> slice(const Rule& r) {
    HK_ASSIGN(const int axis, r.axis("axis", r.shape(0)));
    const int64_t start = r.node.integer("start"), length = r.node.integer("length"), stride = r.node.integer("stride");
    const int64_t size = r.shape(0)[axis];
    if (stride < 1 || length < 0 || start < 0 || start > size ||
        (length > 0 && (size - 1 - start) / stride < length - 1) || (length > 0 && start >= size))
        return r.error("{} elements from {} by {} are outside axis {} of {}", length, start, stride, axis, r.text(0));
    Shape y = r.shape(0);
    y[axis] = length;
    return one(r.kind(0), y);
}

Result<Outputs> unslice(const Rule& r) {
    HK_ASSIGN(const int axis, r.axis("axis", r.shape(0)));
    Shape y = r.shape(0);
    y[axis] = r.node.integer("length");
    HK_TRY(sizes_ok(r, y.dims()));
    const int64_t count = r.shape(0)[axis], start = r.node.integer("start"), stride = r.node.integer("stride");
    if (start < 0 || stride < 1 || (count > 0 && (start >= y[axis] || (y[axis] - 1 - start) / stride < count - 1)))
        return r.error("{} elements from {} by {} are outside {}", count, start, stride, y.text());
    return one(r.kind(0), y);
}

Result<Outputs> concat(const Rule& r) {
    HK_ASSIGN(const int axis, r.axis("axis", r.shape(0)));
    Shape y = r.shape(0);
    Kind kind = r.kind(0);
    for (std::size_t i = 1; i < r.node.inputs.size(); ++i) {
        Shape other = r.shape(i);
        if (other.rank() != y.rank()) return r.error("{} and {} have different ranks", r.text(0), r.text(i));
        if (is_float(kind) != is_float(r.kind(i)))
            return r.error("parts of kinds {} and {}", kind_name(kind), kind_name(r.kind(i)));
        kind = joined(kind, r.kind(i));
        const int64_t length = other[axis];
        other[axis] = r.shape(0)[axis];
        if (!(other == r.shape(0))) return r.error("{} and {} differ outside axis {}", r.text(0), r.text(i), axis);
        y[axis] += length;
    }
    HK_TRY(sizes_ok(r, y.dims()));
    return one(kind, y);
}

Result<Outputs> pad(const Rule& r) {
    HK_ASSIGN(const int axis, r.axis("axis", r.shape(0)));
    const int64_t before = r.node.integer("before"), after = r.node.integer("after");
    if (before < 0 || after < 0 || before > kMaxElements || after > kMaxElements)
        return r.error("before {} and after {} must not be negative", before, after);
    Shape y = r.shape(0);
    y[axis] += before + after;
    HK_TRY(sizes_ok(r, y.dims()));
    return one(r.kind(0), y);
}

Result<Outputs> broadcast(const Rule& r) {
    HK_TRY(sizes_ok(r, r.node.ints("shape")));
    const Shape to(r.node.ints("shape"));
    const std::optional<Shape> both = broadcast_shapes(r.shape(0), to);
    if (!both || !(*both == to)) return r.error("{} does not broadcast to {}", r.text(0), to.text());
    return one(r.kind(0), to);
}

Result<Outputs> reduce(const Rule& r) {
    const Shape& x = r.shape(0);
    std::array<bool, kMaxRank> gone{};
    for (const int64_t a : r.node.ints("axes")) {
        HK_ASSIGN(const int axis, r.axis(a, x));
        if (gone[static_cast<std::size_t>(axis)]) return r.error("axis {} is named twice", a);
        gone[static_cast<std::size_t>(axis)] = true;
    }
    Shape y;
    const bool keep = r.node.integer("keep") != 0;
    for (int axis = 0; axis < x.rank(); ++axis) {
        if (!gone[static_cast<std::size_t>(axis)])
            y.push_back(x[axis]);
        else if (keep)
            y.push_back(1);
    }
    const bool needs_elements = r.node.op != Op::sum;
    if (needs_elements && x.elements() == 0) return r.error("{} has no elements", x.text());
    return one(r.kind(0), y);
}

Result<Outputs> top_k(const Rule& r) {
    if (r.shape(0).rank() == 0) return r.error("a scalar has no axis");
    Shape y = r.shape(0);
    const int64_t k = r.node.integer("k");
    if (k < 1 || k > y[-1]) return r.error("k = {} is outside 1 to {} of {}", k, y[-1], y.text());
    y[-1] = k;
    return Outputs{{r.kind(0), y}, {Kind::int32, y}};
}

Result<Outputs> matmul(const Rule& r) {
    const Shape &a = r.shape(0), &b = r.shape(1);
    if (a.rank() < 2 || b.rank() < 2) return r.error("{} x {}: both need at least two dimensions", a.text(), b.text());
    const bool ta = r.node.integer("transpose_a") != 0, tb = r.node.integer("transpose_b") != 0;
    const int64_t m = a[ta ? -1 : -2], ka = a[ta ? -2 : -1], kb = b[tb ? -1 : -2], n = b[tb ? -2 : -1];
    const char *at = ta ? " transposed" : "", *bt = tb ? " transposed" : "";
    if (ka != kb) return r.error("{}{} x {}{}: inner dimensions {} and {} differ", a.text(), at, b.text(), bt, ka, kb);
    const Shape batch_a(a.dims().first(static_cast<std::size_t>(a.rank() - 2)));
    const Shape batch_b(b.dims().first(static_cast<std::size_t>(b.rank() - 2)));
    const std::optional<Shape> batch = broadcast_shapes(batch_a, batch_b);
    if (!batch) return r.error("{}{} x {}{}: leading dimensions do not broadcast", a.text(), at, b.text(), bt);
    Shape y = *batch;
    y.push_back(m);
    y.push_back(n);
    HK_TRY(sizes_ok(r, y.dims()));
    return one(joined(r.kind(0), r.kind(1)), y);
}

Result<Outputs> linear(const Rule& r) {
    HK_TRY(r.rank(1, 2, "two dimensions"));
    if (r.shape(0).rank() == 0) return r.error("x is a scalar, expected [..., in]");
    const bool input_first = r.node.integer("input_first") != 0;
    const int64_t in = r.shape(1)[input_first ? 0 : 1], out = r.shape(1)[input_first ? 1 : 0];
    if (r.shape(0)[-1] != in)
        return r.error("{} x {} ([{}]): inner dimensions {} and {} differ", r.text(0), r.text(1),
                       input_first ? "in, out" : "out, in", r.shape(0)[-1], in);
    HK_TRY(r.expect(2, Shape{out}));
    Shape y = r.shape(0);
    y[-1] = out;
    return one(joined(r.kind(0), r.kind(1)), y);
}

Result<Outputs> row_linear(const Rule& r) {
    HK_TRY(r.rank(1, 3, "[E, out, in], or [E, in, out] with input_first"));
    if (r.shape(0).rank() < 2) return r.error("x is {}, expected [B, ..., in]", r.text(0));
    const bool input_first = r.node.integer("input_first") != 0;
    const int64_t in = r.shape(1)[input_first ? 1 : 2], out = r.shape(1)[input_first ? 2 : 1];
    if (r.shape(0)[-1] != in)
        return r.error("{} x {} ([{}]): inner dimensions {} and {} differ", r.text(0), r.text(1),
                       input_first ? "E, in, out" : "E, out, in", r.shape(0)[-1], in);
    HK_TRY(r.expect(2, Shape{r.shape(0)[0]}));
    Shape y = r.shape(0);
    y[-1] = out;
    return one(joined(r.kind(0), r.kind(1)), y);
}

Result<Outputs> row_linear_gradient(const Rule& r) {
    HK_TRY(r.rank(0, 2, "[B, out]"));
    HK_TRY(r.rank(1, 2, "[B, in]"));
    const int64_t rows = r.shape(0)[0], out = r.shape(0)[1], in = r.shape(1)[1];
    HK_TRY(r.expect(1, Shape{rows, in}));
    HK_TRY(r.expect(2, Shape{rows}));
    const int64_t matrices = r.node.integer("matrices");
    const Shape weights = r.node.integer("input_first") != 0 ? Shape{matrices, in, out} : Shape{matrices, out, in};
    HK_TRY(sizes_ok(r, weights.dims()));
    return one(Kind::float32, weights);
}

Result<Outputs> norm(const Rule& r) {
    if (r.shape(0).rank() == 0 || r.shape(0)[-1] == 0) return r.error("x is {}, expected [..., D]", r.text(0));
    const Shape row{r.shape(0)[-1]};
    HK_TRY(r.expect(1, row));
    HK_TRY(r.expect(2, row));
    Shape statistics = r.shape(0);
    statistics.erase(-1);
    Outputs outputs{{r.kind(0), r.shape(0)}, {Kind::float32, statistics}};
    if (r.node.op == Op::layer_norm) outputs.push_back({Kind::float32, statistics});
    return outputs;
}

Result<Outputs> norm_gradient(const Rule& r) {
    if (r.shape(0).rank() == 0) return r.error("dy is a scalar, expected [..., D]");
    HK_TRY(r.expect(1, r.shape(0)));
    const Shape row{r.shape(0)[-1]};
    Shape statistics = r.shape(0);
    statistics.erase(-1);
    const std::size_t gain = r.node.op == Op::layer_norm_gradient ? 4 : 3;
    for (std::size_t i = 2; i < gain; ++i) HK_TRY(r.expect(i, statistics));
    HK_TRY(r.expect(gain, row));
    Outputs outputs{{r.kind(1), r.shape(1)}, {Kind::float32, row}};
    if (r.node.op == Op::layer_norm_gradient) outputs.push_back({Kind::float32, row});
    return outputs;
}

Result<Outputs> along_axis(const Rule& r) {
    HK_ASSIGN(const int axis, r.axis("axis", r.shape(0)));
    if (r.node.op == Op::softmax_gradient || r.node.op == Op::scan_linear) HK_TRY(r.expect(1, r.shape(0)));
    if (r.node.op == Op::scan_linear && r.has(2)) {
        Shape line = r.shape(0);
        line.erase(axis);
        HK_TRY(r.expect(2, line));
    }
    if (r.node.op == Op::cummax) return Outputs{{r.kind(0), r.shape(0)}, {Kind::int32, r.shape(0)}};
    return one(r.kind(0), r.shape(0));
}

Result<Outputs> argmax(const Rule& r) {
    HK_ASSIGN(const int axis, r.axis("axis", r.shape(0)));
    if (r.shape(0)[axis] == 0) return r.error("axis {} of {} is empty", axis, r.text(0));
    Shape y = r.shape(0);
    y.erase(axis);
    return one(Kind::int32, y);
}

Result<Outputs> rotary(const Rule& r) {
    HK_TRY(r.rank(0, 4, "[B, H, T, D]"));
    HK_TRY(r.rank(1, 2, "[positions, R/2]"));
    HK_TRY(r.expect(2, r.shape(1)));
    if (r.shape(1)[1] * 2 > r.shape(0)[3])
        return r.error("tables for {} elements, but x {} has {}", r.shape(1)[1] * 2, r.text(0), r.shape(0)[3]);
    HK_TRY(r.expect(3, Shape{r.shape(0)[0], r.shape(0)[2]}));
    if (!r.has(3) && r.shape(1)[0] < r.shape(0)[2])
        return r.error("tables for {} positions, but x {} has {}", r.shape(1)[0], r.text(0), r.shape(0)[2]);
    return one(r.kind(0), r.shape(0));
}

Result<Outputs> embedding(const Rule& r) {
    HK_TRY(r.rank(0, 2, "[V, D]"));
    Shape y = r.shape(1);
    if (y.rank() == kMaxRank) return r.error("ids {} have too many dimensions", r.text(1));
    y.push_back(r.shape(0)[1]);
    HK_TRY(sizes_ok(r, y.dims()));
    return one(r.kind(0), y);
}

Result<Outputs> embedding_gradient(const Rule& r) {
    Shape rows = r.shape(1);
    if (r.shape(0).rank() != rows.rank() + 1) return r.error("dy {} and ids {} do not fit", r.text(0), r.text(1));
    rows.push_back(r.shape(0)[-1]);
    HK_TRY(r.expect(0, rows));
    const Shape table{r.node.integer("rows"), r.shape(0)[-1]};
    HK_TRY(sizes_ok(r, table.dims()));
    return one(Kind::float32, table);
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

Result<Outputs> gather(const Rule& r) {
    HK_ASSIGN(const Shape y, gathered(r));
    return one(r.kind(0), y);
}

Result<Outputs> scatter(const Rule& r) {
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

// Checks the inputs of attention, which begin at input `q`.
Status attention_inputs(const Rule& r, std::size_t q) {
    for (std::size_t i = q; i < q + 3; ++i) HK_TRY(r.rank(i, 4, "[B, H, T, D]"));
    const Shape &qs = r.shape(q), &ks = r.shape(q + 1), &vs = r.shape(q + 2);
    const int64_t b = qs[0], h = qs[1], tq = qs[2], tk = ks[2];
    if (ks[0] != b || vs[0] != b)
        return r.error("q {}, k {}, v {}: batch sizes differ", qs.text(), ks.text(), vs.text());
    if (ks[3] != qs[3])
        return r.error("q {} and k {}: head sizes {} and {} differ", qs.text(), ks.text(), qs[3], ks[3]);
    if (vs[1] != ks[1] || vs[2] != tk) return r.error("k {} and v {}: heads or lengths differ", ks.text(), vs.text());
    if (ks[1] == 0 || h % ks[1] != 0)
        return r.error("q {} and k {}: {} query heads are not a multiple of {} key heads", qs.text(), ks.text(), h,
                       ks[1]);
    if (tk == 0) return r.error("k {} has no keys", ks.text());
    const auto scores = [&](std::size_t i) -> Status {
        if (!r.has(i)) return {};
        const Shape& s = r.shape(i);
        if (s.rank() == 4 && (s[0] == 1 || s[0] == b) && (s[1] == 1 || s[1] == h) && s[2] == tq && s[3] == tk)
            return {};
        return r.error("{} is {}, expected [{} or 1, {} or 1, {}, {}]", r.input_name(i), s.text(), b, h, tq, tk);
    };
    const auto distances = [&](const char* table) { return r.node.ints(table); };
    const std::vector<int64_t>& table = distances("distance_table");
    const std::vector<int64_t>& key_table = distances("key_distance_table");
    const auto in_table = [&](std::size_t i, const std::vector<int64_t>& t, const char* attribute,
                              int64_t limit) -> Status {
        if (t.empty()) return r.error("{} needs the attribute {}", r.input_name(i), attribute);
        for (const int64_t entry : t)
            if (entry < 0 || entry >= limit)
                return r.error("{} has the entry {}, but {} is {}", attribute, entry, r.input_name(i), r.text(i));
        return {};
    };
    HK_TRY(scores(q + 3));
    if (r.has(q + 4)) {
        HK_TRY(r.rank(q + 4, 2, "[heads, distances]"));
        if (r.shape(q + 4)[0] != h) return r.error("distance_bias is {}, expected [{}, distances]", r.text(q + 4), h);
        HK_TRY(in_table(q + 4, table, "distance_table", r.shape(q + 4)[1]));
    }
    if (r.has(q + 5)) {
        HK_TRY(r.rank(q + 5, 4, "[B, H, Tq, distances]"));
        HK_TRY(r.expect(q + 5, Shape{b, h, tq, r.shape(q + 5)[3]}));
        HK_TRY(in_table(q + 5, table, "distance_table", r.shape(q + 5)[3]));
    }
    if (r.has(q + 6)) {
        HK_TRY(r.rank(q + 6, 4, "[B, H, Tk, distances]"));
        HK_TRY(r.expect(q + 6, Shape{b, h, tk, r.shape(q + 6)[3]}));
        HK_TRY(in_table(q + 6, key_table, "key_distance_table", r.shape(q + 6)[3]));
    }
    if (r.has(q + 7)) {
        HK_TRY(r.expect(q + 7, Shape{b, h, tq, 2}));
        if (!r.has(q + 8) || !r.has(q + 9)) return r.error("query_class needs q_class and k_class");
    }
    HK_TRY(r.expect(q + 8, Shape{b, tq}));
    HK_TRY(r.expect(q + 9, Shape{b, tk}));
    HK_TRY(r.expect(q + 10, Shape{b, tk}));
    HK_TRY(r.expect(q + 11, Shape{b, tq}));
    HK_TRY(scores(q + 12));
    if (r.has(q + 13) != r.has(q + 14)) return r.error("q_group and k_group come together");
    HK_TRY(r.expect(q + 13, Shape{b, tq}));
    HK_TRY(r.expect(q + 14, Shape{b, tk}));
    HK_TRY(r.expect(q + 15, Shape{b, tq}));
    HK_TRY(r.expect(q + 16, Shape{b, tk}));
    HK_TRY(r.expect(q + 17, Shape{b}));
    const double dropout = r.node.real("dropout");
    if (!(dropout >= 0.0 && dropout < 1.0)) return r.error("dropout {} is outside [0, 1)", dropout);
    return {};
}

Result<Outputs> attention(const Rule& r) {
    HK_TRY(attention_inputs(r, 0));
    const Shape &q = r.shape(0), &v = r.shape(2);
    return Outputs{{r.kind(0), Shape{q[0], q[1], q[2], v[3]}}, {Kind::float32, Shape{q[0], q[1], q[2], 2}}};
}

Result<Outputs> attention_gradient(const Rule& r) {
    HK_TRY(attention_inputs(r, 3));
    const Shape &q = r.shape(3), &v = r.shape(5);
    const Shape y{q[0], q[1], q[2], v[3]};
    HK_TRY(r.expect(0, y));
    HK_TRY(r.expect(1, y));
    HK_TRY(r.expect(2, Shape{q[0], q[1], q[2], 2}));
    Outputs outputs;
    const int64_t wanted = r.node.integer("wanted");
    for (std::size_t i = 0; i < 8; ++i) {
        const std::size_t input = i + 3;
        if ((wanted >> i & 1) == 0) {
            outputs.push_back({Kind::float32, Shape{0}});
        } else {
            if (!r.has(input)) return r.error("a gradient of {} is wanted, which is absent", r.input_name(input));
            outputs.push_back({r.kind(input), r.shape(input)});
        }
    }
    return outputs;
}

Result<Outputs> attention_cached(const Rule& r) {
    for (std::size_t i = 0; i < 3; ++i) HK_TRY(r.rank(i, 4, "[B, H, T, D]"));
    const Shape &q = r.shape(0), &k = r.shape(1), &v = r.shape(2);
    const int64_t b = q[0], capacity = r.node.integer("capacity");
    if (k[0] != b || v[0] != b || k[2] != q[2] || v[2] != q[2] || k[3] != q[3] || v[1] != k[1] || k[1] == 0 ||
        q[1] % k[1] != 0)
        return r.error("q {}, k {}, v {} do not fit", q.text(), k.text(), v.text());
    if (capacity < 1 || capacity > std::numeric_limits<int32_t>::max())
        return r.error("capacity {} is not possible", capacity);
    HK_TRY(r.expect(3, Shape{b}));
    HK_TRY(r.expect(4, Shape{b}));
    HK_TRY(r.expect(5, Shape{b, capacity}));
    if (r.has(6)) {
        HK_TRY(r.rank(6, 2, "[heads, distances]"));
        for (const int64_t entry : r.node.ints("distance_table"))
            if (entry < 0 || entry >= r.shape(6)[1])
                return r.error("distance_table has the entry {}, distance_bias is {}", entry, r.text(6));
    }
    return one(r.kind(0), Shape{b, q[1], q[2], v[3]});
}

// Checks the inputs of gru and lstm, whose x is input `x`; gates: 3 or 4.
Status recurrent_inputs(const Rule& r, std::size_t x, int64_t gates) {
    HK_TRY(r.rank(x, 3, "[B, T, I]"));
    HK_TRY(r.rank(x + 2, 2, "[gates H, H]"));
    const int64_t b = r.shape(x)[0], in = r.shape(x)[2], h = r.shape(x + 2)[1];
    HK_TRY(r.expect(x + 1, Shape{gates * h, in}));
    HK_TRY(r.expect(x + 2, Shape{gates * h, h}));
    HK_TRY(r.expect(x + 3, Shape{gates * h}));
    HK_TRY(r.expect(x + 4, Shape{gates * h}));
    HK_TRY(r.expect(x + 5, Shape{b}));
    HK_TRY(r.expect(x + 6, Shape{b, h}));
    if (gates == 4) HK_TRY(r.expect(x + 7, Shape{b, h}));
    return {};
}

Result<Outputs> recurrent(const Rule& r) {
    const bool lstm = r.node.op == Op::lstm;
    HK_TRY(recurrent_inputs(r, 0, lstm ? 4 : 3));
    const int64_t b = r.shape(0)[0], t = r.shape(0)[1], h = r.shape(2)[1];
    const Kind kind = r.kind(0);
    Outputs outputs{{kind, Shape{b, t, h}}, {kind, Shape{b, h}}};
    if (lstm) {
        outputs.push_back({kind, Shape{b, h}});
        outputs.push_back({kind, Shape{b, t, h}});
    }
    return outputs;
}

Result<Outputs> recurrent_gradient(const Rule& r) {
    const bool lstm = r.node.op == Op::lstm_gradient;
    const std::size_t x = lstm ? 5 : 3;
    HK_TRY(recurrent_inputs(r, x, lstm ? 4 : 3));
    const int64_t b = r.shape(x)[0], t = r.shape(x)[1], h = r.shape(x + 2)[1];
    // dy; the gradients of the last states; y, and the cells of an LSTM.
    for (std::size_t i = 0; i < x; ++i)
        HK_TRY(r.expect(i, i >= 1 && i <= (lstm ? 2U : 1U) ? Shape{b, h} : Shape{b, t, h}));
    Outputs outputs{{r.kind(x), r.shape(x)}};
    for (std::size_t i = x + 1; i < x + 5; ++i) outputs.push_back({Kind::float32, r.shape(i)});
    outputs.push_back({r.kind(x), Shape{b, h}});
    if (lstm) outputs.push_back({r.kind(x), Shape{b, h}});
    return outputs;
}

Result<Outputs> cross_entropy(const Rule& r) {
    const bool back = r.node.op == Op::cross_entropy_gradient;
    const std::size_t logits = back ? 1 : 0;
    const Shape& x = r.shape(logits);
    if (x.rank() == 0 || x[-1] == 0) return r.error("logits are {}, expected [..., V]", x.text());
    Shape rows = x;
    rows.erase(-1);
    HK_TRY(r.expect(logits + 1, rows));
    HK_TRY(r.expect(back ? 4 : 2, Shape{x[-1]}));
    Shape pairs = rows; // the largest logit, and the logarithm of the sum of exp relative to it
    pairs.push_back(2);
    if (!back) return Outputs{{Kind::float32, rows}, {Kind::float32, pairs}};
    HK_TRY(r.expect(0, rows));
    HK_TRY(r.expect(3, pairs));
    return one(r.kind(logits), x);
}

Result<Outputs> linear_cross_entropy(const Rule& r) {
    const bool forward = r.node.op != Op::linear_cross_entropy_gradient; // computes the loss
    const bool back = r.node.op != Op::linear_cross_entropy;
    const std::size_t x = back ? 1 : 0;
    HK_TRY(r.rank(x, 2, "[N, D]"));
    HK_TRY(r.rank(x + 1, 2, "[V, D], or [D, V] with input_first"));
    const int axis = r.node.integer("input_first") != 0 ? 1 : 0;
    const int64_t classes = r.shape(x + 1)[axis], width = r.shape(x)[1];
    const Shape rows{r.shape(x)[0]}, pairs{rows[0], 2};
    if (classes == 0 || r.shape(x + 1)[1 - axis] != width)
        return r.error("x is {} and weight {}: expected {} of {} numbers", r.text(x), r.text(x + 1),
                       axis == 1 ? "columns" : "rows", width);
    HK_TRY(r.expect(x + 2, Shape{classes}));
    HK_TRY(r.expect(x + 3, rows));
    HK_TRY(r.expect(forward ? x + 4 : 6, Shape{classes}));
    Outputs outputs;
    if (forward) {
        outputs.push_back({Kind::float32, rows});
        if (!back) outputs.push_back({Kind::float32, pairs});
        outputs.push_back({Kind::int32, Shape{r.node.integer("best") != 0 ? rows[0] : 0}});
    }
    if (!back) return outputs;
    HK_TRY(r.expect(0, rows));
    if (!forward) HK_TRY(r.expect(5, pairs));
    const int64_t wanted = r.node.integer("wanted");
    const auto of = [&](int64_t bit, const Shape& shape) { return (wanted >> bit & 1) != 0 ? shape : Shape{0}; };
    outputs.push_back({r.kind(x), of(0, r.shape(x))});
    outputs.push_back({Kind::float32, of(1, r.shape(x + 1))});
    outputs.push_back({Kind::float32, of(2, Shape{classes})});
    return outputs;
}

Result<Outputs> leaf(const Rule& r) {
    switch (r.node.op) {
    case Op::iota: {
        const int64_t length = r.node.integer("length");
        const std::vector<int64_t> dims{length};
        HK_TRY(sizes_ok(r, dims));
        return one(Kind::int32, Shape{length});
    }
    case Op::positions: {
        const std::vector<int64_t> dims{r.node.integer("batch"), r.node.integer("length")};
        HK_TRY(sizes_ok(r, dims));
        return one(Kind::int32, Shape(dims));
    }
    case Op::step_scalar: return one(Kind::float32, Shape{});
    default: break;
    }
    const std::vector<int64_t>& dims = r.node.ints("shape");
    HK_TRY(sizes_ok(r, dims));
    const Shape shape(dims);
    Kind kind = Kind::float_;
    if (r.node.op != Op::parameter) {
        const int64_t number = r.node.integer("kind");
        if (number < 0 || number > 2) return r.error("kind {} is not 0, 1 or 2", number);
        kind = static_cast<Kind>(number);
    }
    if (r.node.op == Op::constant || r.node.op == Op::buffer) {
        const std::size_t given = r.node.reals("value").size();
        const bool optional = r.node.op == Op::buffer && given == 0;
        if (!optional && given != static_cast<std::size_t>(shape.elements()))
            return r.error("{} values for {}", given, shape.text());
    }
    return one(kind, shape);
}

// Checks the bounds of truncated_normal. Kernels have their probabilities in float32.
Status bounds_ok(const Rule& r) {
    constexpr double kLeast = 1e-30;
    const double low = r.node.real("low"), high = r.node.real("high");
    if (!(low < high)) return r.error("low is {} and high is {}; expected low below high", low, high);
    const double inside = TruncatedNormal(low, high).inside();
    if (inside < kLeast)
        return r.error(
            "a normal number is within [{}, {}] with a probability of {}; expected at least {}: choose bounds "
            "that are nearer to 0 or farther apart",
            low, high, inside, kLeast);
    return {};
}

// Returns the outputs that the plugin declared for this use.
Result<Outputs> own(const Rule& r) {
    const OwnUse& use = *r.node.own;
    for (std::size_t i = 0; i < r.node.inputs.size(); ++i)
        if (!(r.shape(i) == use.inputs[i]))
            return r.error("{} is {}, and this use was described for {}", r.input_name(i), r.text(i),
                           use.inputs[i].text());
    return use.outputs;
}

} // namespace

std::optional<Shape> broadcast_shapes(const Shape& a, const Shape& b) {
    const Shape& longer = a.rank() >= b.rank() ? a : b;
    const Shape& shorter = a.rank() >= b.rank() ? b : a;
    Shape result = longer;
    for (int i = 1; i <= shorter.rank(); ++i) {
        const int64_t x = longer[-i], y = shorter[-i];
        if (x != y && x != 1 && y != 1) return std::nullopt;
        result[-i] = x == 1 ? y : x;
    }
    return result;
}

std::optional<std::size_t> repeated_index(std::span<const double> indices, int64_t batches) {
    const std::size_t count = batches == 0 ? 0 : indices.size() / static_cast<std::size_t>(batches);
    std::set<double> seen;
    for (std::size_t i = 0; i < indices.size(); ++i) {
        if (i % count == 0) seen.clear();
        if (!seen.insert(indices[i]).second) return i;
    }
    return std::nullopt;
}

Result<Outputs> infer_outputs(const Graph& graph, const Node& node) {
    const Rule r{graph, node};
    if ((node.op == Op::own) != (node.own != nullptr))
        return internal_error("an operation of a plugin's own without its description");
    const OperationInfo& o = info(node);
    const bool variadic = !o.inputs.empty() && o.inputs[0].variadic;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (!r.has(i)) continue;
        const InputInfo& in = o.inputs[variadic ? 0 : i];
        const bool wrong = (in.kind == InputKind::integer && is_float(r.kind(i))) ||
                           (in.kind == InputKind::floating && !is_float(r.kind(i)));
        if (wrong)
            return r.error("{} is {}, expected {}", in.name, kind_name(r.kind(i)),
                           in.kind == InputKind::integer ? "int32" : "float (use cast)");
    }
    if (is_pointwise(node.op)) return pointwise(r);
    if (is_leaf(node.op)) return leaf(r);
    switch (node.op) {
    case Op::reshape: return reshape(r);
    case Op::transpose: return transpose(r);
    case Op::slice: return slice(r);
    case Op::unslice: return unslice(r);
    case Op::concat: return concat(r);
    case Op::pad: return pad(r);
    case Op::broadcast: return broadcast(r);
    case Op::sum:
    case Op::mean:
    case Op::max:
    case Op::logsumexp: return reduce(r);
    case Op::argmax: return argmax(r);
    case Op::top_k: return top_k(r);
    case Op::flip:
    case Op::cumsum:
    case Op::cumprod:
    case Op::cummax:
    case Op::logcumsumexp:
    case Op::scan_linear:
    case Op::softmax:
    case Op::log_softmax:
    case Op::softmax_gradient: return along_axis(r);
    case Op::random_uniform:
    case Op::random_normal:
    case Op::truncated_normal: {
        if (node.op == Op::truncated_normal) HK_TRY(bounds_ok(r));
        HK_TRY(sizes_ok(r, node.ints("shape")));
        return one(Kind::float_, Shape(node.ints("shape")));
    }
    case Op::matmul: return matmul(r);
    case Op::linear: return linear(r);
    case Op::row_linear: return row_linear(r);
    case Op::row_linear_gradient: return row_linear_gradient(r);
    case Op::conv1d:
    case Op::conv2d: return convolution_outputs(r);
    case Op::max_pool1d:
    case Op::max_pool2d:
    case Op::avg_pool1d:
    case Op::avg_pool2d: return pool_outputs(r);
    case Op::patches: return patches_outputs(r);
    case Op::patches_gradient:
    case Op::max_pool2d_gradient:
    case Op::avg_pool2d_gradient: return windows_gradient_outputs(r);
    case Op::layer_norm:
    case Op::rms_norm: return norm(r);
    case Op::layer_norm_gradient:
    case Op::rms_norm_gradient: return norm_gradient(r);
    case Op::rotary: return rotary(r);
    case Op::embedding: return embedding(r);
    case Op::embedding_gradient: return embedding_gradient(r);
    case Op::gather: return gather(r);
    case Op::scatter_add:
    case Op::scatter: return scatter(r);
    case Op::attention: return attention(r);
    case Op::attention_gradient: return attention_gradient(r);
    case Op::attention_cached: return attention_cached(r);
    case Op::gru:
    case Op::lstm: return recurrent(r);
    case Op::gru_gradient:
    case Op::lstm_gradient: return recurrent_gradient(r);
    case Op::cross_entropy:
    case Op::cross_entropy_gradient: return cross_entropy(r);
    case Op::linear_cross_entropy:
    case Op::linear_cross_entropy_gradient:
    case Op::linear_cross_entropy_with_gradient: return linear_cross_entropy(r);
    case Op::once:
    case Op::state_read:
    case Op::state_write:
    case Op::for_parameters:
    case Op::tap:
    case Op::site: return one(r.kind(0), r.shape(0));
    case Op::gradient_of: return one(r.kind(1), r.shape(1));
    case Op::loop_index:
    case Op::loop_step:
    case Op::loop_state:
    case Op::loop_next:
    case Op::loop_collect: return loop_outputs(r);
    case Op::incoming_gradient:
    case Op::with_gradient: return given_gradient_outputs(r);
    case Op::buffer_update: {
        const Op made_by = graph.producer(node.inputs[0]).op;
        if (made_by != Op::buffer)
            return r.error("buffer is a result of {}, expected a value of buffer()", info(made_by).name);
        HK_TRY(r.expect(1, r.shape(0)));
        return one(r.kind(1), r.shape(1));
    }
    case Op::own: return own(r);
    default: break;
    }
    return internal_error(fmt::format("{} has no shape rule", o.name));
}

} // namespace hekla::graph
