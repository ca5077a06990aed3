// Attention: every option, forward, backward and over a cache. The reference computes one head's scores as a matrix,
// following the definition in operations.json.
#include "graph/gradient/backward.hpp"
#include "graph/operations/random.hpp"
#include "graph/operations/rules.hpp"
#include "graph/operations/shape_rule.hpp"
#include "graph/reference/call.hpp"
#include "graph/reference/multiply.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace hekla::graph {
namespace {

// Among the outputs of attention_gradient, after those of q and what follows it.
constexpr std::size_t kSinksGradient = 8;

// The second part of the hidden output lse if nothing is allowed: finite, and exp(score - lse) is 0.
constexpr double kEmptyRow = 1e30;

int64_t table_entry(const std::vector<int64_t>& table, int64_t distance, int64_t first) {
    return table[at(std::clamp<int64_t>(distance - first, 0, static_cast<int64_t>(table.size()) - 1))];
}

// Returns the offset of one head's scores in a [b | 1, h | 1, i, j] tensor.
int64_t scores_at(const Shape& shape, int64_t b, int64_t h) {
    return ((shape[0] == 1 ? 0 : b) * shape[1] + (shape[1] == 1 ? 0 : h)) * shape[2] * shape[3];
}

// The inputs of attention and attention_gradient, which are the same from `q` on.
struct Attention {
    const Call& call;
    std::size_t q;
    int64_t batch, heads, key_heads, queries, keys, width, value_width;
    double scale;
    bool causal, zero_empty;
    int64_t window, window_after;
    double softcap;
    double dropout;
    int64_t stream;
    const std::vector<int64_t>& table;
    const std::vector<int64_t>& key_table;
    int64_t first, key_first;

    enum Input : std::size_t {
        k = 1,
        v,
        bias,
        distance_bias,
        query_distance,
        key_distance,
        query_class,
        q_class,
        k_class,
        key_padding,
        query_padding,
        mask,
        q_group,
        k_group,
        q_position,
        k_position,
        prefix,
        sinks
    };

    Attention(const Call& c, std::size_t first_input)
        : call(c), q(first_input), batch(shape(0)[0]), heads(shape(0)[1]), key_heads(shape(k)[1]), queries(shape(0)[2]),
          keys(shape(k)[2]), width(shape(0)[3]), value_width(shape(v)[3]), scale(c.node.real("scale")),
          causal(c.node.integer("causal") != 0), zero_empty(c.node.integer("empty_row") != 0),
          window(c.node.integer("window")), window_after(c.node.integer("window_after")),
          softcap(c.node.real("softcap")), dropout(c.node.real("dropout")), stream(c.node.integer("stream")),
          table(c.node.ints("distance_table")), key_table(c.node.ints("key_distance_table")),
          first(c.node.integer("distance_first")), key_first(c.node.integer("key_distance_first")) {
        if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(width));
    }

    bool has(std::size_t input) const { return call.has(q + input); }
    const Shape& shape(std::size_t input) const { return call.in(q + input).shape; }
    const double* data(std::size_t input) const { return call.data(q + input); }
    int64_t integer(std::size_t input, int64_t i) const { return static_cast<int64_t>(data(input)[i]); }

    int64_t key_head(int64_t b, int64_t h) const { return b * key_heads + h / (heads / key_heads); }
    int64_t query_position(int64_t b, int64_t i) const {
        return has(q_position) ? integer(q_position, b * queries + i) : i;
    }
    int64_t key_position(int64_t b, int64_t j) const { return has(k_position) ? integer(k_position, b * keys + j) : j; }
    bool crosses_class(int64_t b, int64_t i, int64_t j) const {
        return integer(q_class, b * queries + i) != integer(k_class, b * keys + j);
    }

    bool allowed(int64_t b, int64_t h, int64_t i, int64_t j) const {
        const int64_t place = key_position(b, j);
        const int64_t distance = query_position(b, i) - place;
        const bool in_prefix = has(prefix) && place < integer(prefix, b);
        if (causal && distance < 0 && !in_prefix) return false;
        if (window > 0 && distance >= window) return false;
        if (window_after > 0 && -distance >= window_after) return false;
        if (has(key_padding) && data(key_padding)[b * keys + j] == 0) return false;
        if (has(query_padding) && data(query_padding)[b * queries + i] == 0) return false;
        if (has(q_group) && data(q_group)[b * queries + i] != data(k_group)[b * keys + j]) return false;
        return !has(mask) || data(mask)[scores_at(shape(mask), b, h) + i * keys + j] != 0;
    }

    // Returns the score of a head's key without a value; -infinity: there is none.
    double sink(int64_t h) const { return has(sinks) ? data(sinks)[h] : -kInfinity; }

    // Computes scores [Tq, Tk] of one head; -infinity where not allowed. Sets `open` for allowed pairs. slopes: gets
    // the derivatives of scores with respect to scale q.k, if there is a cap.
    void scores(int64_t b, int64_t h, std::vector<double>& s, std::vector<char>& open,
                std::vector<double>* slopes = nullptr) const {
        multiply({.m = queries, .k = width, .n = keys, .transpose_b = true},
                 data(0) + (b * heads + h) * queries * width, data(k) + key_head(b, h) * keys * width, s.data());
        const double* extra = has(bias) ? data(bias) + scores_at(shape(bias), b, h) : nullptr;
        for (int64_t i = 0; i < queries; ++i)
            for (int64_t j = 0; j < keys; ++j) {
                const std::size_t place = at(i * keys + j);
                open[place] = allowed(b, h, i, j) ? 1 : 0;
                if (!open[place]) {
                    s[place] = -kInfinity;
                    continue;
                }
                s[place] *= scale;
                if (softcap > 0) {
                    const double t = std::tanh(s[place] / softcap);
                    if (slopes != nullptr) (*slopes)[place] = 1 - t * t;
                    s[place] = softcap * t;
                }
                if (extra) s[place] += extra[place];
                for_each_term(b, h, i, j, [&](std::size_t input, int64_t term) { s[place] += data(input)[term]; });
            }
    }

    // Calls `use` for the elements of the tables and classes that are added to one score.
    template<class Use>
    void for_each_term(int64_t b, int64_t h, int64_t i, int64_t j, Use use) const {
        const int64_t distance = query_position(b, i) - key_position(b, j);
        if (has(distance_bias)) use(distance_bias, h * shape(distance_bias)[1] + table_entry(table, distance, first));
        if (has(query_distance))
            use(query_distance,
                ((b * heads + h) * queries + i) * shape(query_distance)[3] + table_entry(table, distance, first));
        if (has(key_distance))
            use(key_distance,
                ((b * heads + h) * keys + j) * shape(key_distance)[3] + table_entry(key_table, -distance, key_first));
        if (has(query_class)) use(query_class, ((b * heads + h) * queries + i) * 2 + (crosses_class(b, i, j) ? 1 : 0));
    }

    bool has_terms() const {
        return has(distance_bias) || has(query_distance) || has(key_distance) || has(query_class);
    }

    double keep(int64_t b, int64_t h, int64_t i, int64_t j) const {
        return dropout_factor(call.feeds, stream, dropout, b, (h * queries + i) * keys + j);
    }
};

// Checks the inputs of attention, which begin at input `q`.
Status attention_inputs(const Rule& r, std::size_t q) {
    using enum Attention::Input; // from q on
    for (const std::size_t i : {q, q + k, q + v}) HK_TRY(r.rank(i, 4, "[B, H, T, D]"));
    const Shape &qs = r.shape(q), &ks = r.shape(q + k), &vs = r.shape(q + v);
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
    const std::vector<int64_t>& table = r.node.ints("distance_table");
    const std::vector<int64_t>& key_table = r.node.ints("key_distance_table");
    const auto in_table = [&](std::size_t i, const std::vector<int64_t>& t, const char* attribute,
                              int64_t limit) -> Status {
        if (t.empty()) return r.error("{} needs the attribute {}", r.input_name(i), attribute);
        for (const int64_t entry : t)
            if (entry < 0 || entry >= limit)
                return r.error("{} has the entry {}, but {} is {}", attribute, entry, r.input_name(i), r.text(i));
        return {};
    };
    HK_TRY(scores(q + bias));
    if (r.has(q + distance_bias)) {
        HK_TRY(r.rank(q + distance_bias, 2, "[heads, distances]"));
        if (r.shape(q + distance_bias)[0] != h)
            return r.error("distance_bias is {}, expected [{}, distances]", r.text(q + distance_bias), h);
        HK_TRY(in_table(q + distance_bias, table, "distance_table", r.shape(q + distance_bias)[1]));
    }
    if (r.has(q + query_distance)) {
        HK_TRY(r.rank(q + query_distance, 4, "[B, H, Tq, distances]"));
        HK_TRY(r.expect(q + query_distance, Shape{b, h, tq, r.shape(q + query_distance)[3]}));
        HK_TRY(in_table(q + query_distance, table, "distance_table", r.shape(q + query_distance)[3]));
    }
    if (r.has(q + key_distance)) {
        HK_TRY(r.rank(q + key_distance, 4, "[B, H, Tk, distances]"));
        HK_TRY(r.expect(q + key_distance, Shape{b, h, tk, r.shape(q + key_distance)[3]}));
        HK_TRY(in_table(q + key_distance, key_table, "key_distance_table", r.shape(q + key_distance)[3]));
    }
    if (r.has(q + query_class)) {
        HK_TRY(r.expect(q + query_class, Shape{b, h, tq, 2}));
        if (!r.has(q + q_class) || !r.has(q + k_class)) return r.error("query_class needs q_class and k_class");
    }
    HK_TRY(r.expect(q + q_class, Shape{b, tq}));
    HK_TRY(r.expect(q + k_class, Shape{b, tk}));
    HK_TRY(r.expect(q + key_padding, Shape{b, tk}));
    HK_TRY(r.expect(q + query_padding, Shape{b, tq}));
    HK_TRY(scores(q + mask));
    if (r.has(q + q_group) != r.has(q + k_group)) return r.error("q_group and k_group come together");
    HK_TRY(r.expect(q + q_group, Shape{b, tq}));
    HK_TRY(r.expect(q + k_group, Shape{b, tk}));
    HK_TRY(r.expect(q + q_position, Shape{b, tq}));
    HK_TRY(r.expect(q + k_position, Shape{b, tk}));
    HK_TRY(r.expect(q + prefix, Shape{b}));
    HK_TRY(r.expect(q + sinks, Shape{h}));
    HK_TRY(soft_cap_ok(r));
    const double dropout = r.node.real("dropout");
    if (!(dropout >= 0.0 && dropout < 1.0)) return r.error("dropout {} is outside [0, 1)", dropout);
    return {};
}

// The log-sum-exp of a row: its greatest score m, and log(sum exp(score - m)).
struct RowSum {
    double top = 0, log_total = kEmptyRow;
    bool empty() const { return log_total == kEmptyRow; }
};

// Turns a row of scores into probabilities (zeros if nothing is allowed). sink: the score of a key without a value;
// -infinity: there is none.
RowSum softmax_row(double* s, const char* open, int64_t length, double sink = -kInfinity) {
    if (sink == -kInfinity && std::none_of(open, open + length, [](char o) { return o != 0; })) {
        std::fill_n(s, length, 0.0);
        return {};
    }
    double top = sink;
    for (int64_t j = 0; j < length; ++j)
        if (open[j]) top = std::max(top, s[j]);
    double total = sink == -kInfinity ? 0 : std::exp(sink - top);
    for (int64_t j = 0; j < length; ++j) total += s[j] = open[j] ? std::exp(s[j] - top) : 0;
    for (int64_t j = 0; j < length; ++j) s[j] /= total;
    return {top, std::log(total)};
}

Result<Outputs> attention_outputs(const Rule& r) {
    HK_TRY(attention_inputs(r, 0));
    const Shape &q = r.shape(0), &v = r.shape(2);
    return Outputs{{r.kind(0), Shape{q[0], q[1], q[2], v[3]}}, {Kind::float32, Shape{q[0], q[1], q[2], 2}}};
}

void attention_gradient(Backward& b) {
    std::vector<ValueId> inputs{b.dy(), b.y(0), b.y(1)};
    inputs.insert(inputs.end(), b.node().inputs.begin(), b.node().inputs.end());
    std::vector<NamedAttribute> attributes = attributes_of(b.node());
    attributes.push_back({"wanted", b.wanted(kSinksGradient) | int64_t{b.wants(Attention::sinks)} << kSinksGradient});
    std::vector<ValueId> gradients = b.builder().emit(Op::attention_gradient, inputs, attributes);
    if (gradients.empty()) return;
    if (b.wants(Attention::sinks)) b.give(Attention::sinks, gradients[kSinksGradient]);
    gradients.resize(kSinksGradient);
    b.give_each(gradients);
}

Status run_attention(const Call& call) {
    const Attention a(call, 0);
    const std::size_t size = at(a.queries * a.keys);
    std::vector<double> p(size);
    std::vector<char> open(size);
    for (int64_t b = 0; b < a.batch; ++b)
        for (int64_t h = 0; h < a.heads; ++h) {
            a.scores(b, h, p, open);
            for (int64_t i = 0; i < a.queries; ++i) {
                double* row = p.data() + i * a.keys;
                const RowSum sum = softmax_row(row, open.data() + i * a.keys, a.keys, a.sink(h));
                const std::size_t place = at(((b * a.heads + h) * a.queries + i) * 2);
                call.out(1).data[place] = sum.top;
                call.out(1).data[place + 1] = sum.log_total;
                if (sum.empty()) {
                    if (!a.zero_empty) std::fill_n(row, a.keys, 1 / static_cast<double>(a.keys));
                } else if (a.dropout > 0) {
                    for (int64_t j = 0; j < a.keys; ++j) row[j] *= a.keep(b, h, i, j);
                }
            }
            multiply({.m = a.queries, .k = a.keys, .n = a.value_width}, p.data(),
                     a.data(Attention::v) + a.key_head(b, h) * a.keys * a.value_width,
                     call.out().data.data() + (b * a.heads + h) * a.queries * a.value_width);
        }
    return {};
}

Result<Outputs> attention_gradient_outputs(const Rule& r) {
    HK_TRY(attention_inputs(r, 3));
    const Shape &q = r.shape(3), &v = r.shape(5);
    const Shape y{q[0], q[1], q[2], v[3]};
    HK_TRY(r.expect(0, y));
    HK_TRY(r.expect(1, y));
    HK_TRY(r.expect(2, Shape{q[0], q[1], q[2], 2}));
    Outputs outputs;
    const int64_t wanted = r.node.integer("wanted");
    for (std::size_t i = 0; i <= kSinksGradient; ++i) {
        const std::size_t input = 3 + (i == kSinksGradient ? Attention::sinks : i);
        if ((wanted >> i & 1) == 0) {
            outputs.push_back({Kind::float32, Shape{0}});
        } else {
            if (!r.has(input)) return r.error("a gradient of {} is wanted, which is absent", r.input_name(input));
            outputs.push_back({r.kind(input), r.shape(input)});
        }
    }
    return outputs;
}

Status run_attention_gradient(const Call& call) {
    const Attention a(call, 3);
    const int64_t wanted = call.node.integer("wanted");
    // Output o is the gradient of input o: q, k, v, bias, distance_bias, query_distance, key_distance, query_class; the
    // last is that of sinks.
    const auto out = [&](std::size_t o) { return (wanted >> o & 1) != 0 ? call.out(o).data.data() : nullptr; };
    const std::size_t size = at(a.queries * a.keys);
    std::vector<double> p(size), dropped(size), ds(size), slopes(a.softcap > 0 ? size : 0);
    std::vector<char> open(size);
    for (int64_t b = 0; b < a.batch; ++b)
        for (int64_t h = 0; h < a.heads; ++h) {
            const int64_t head = b * a.heads + h, key_head = a.key_head(b, h);
            const double* dy = call.data(0) + head * a.queries * a.value_width;
            // From here on ds is the gradient of the factor of v.
            multiply({.m = a.queries, .k = a.value_width, .n = a.keys, .transpose_b = true}, dy,
                     a.data(Attention::v) + key_head * a.keys * a.value_width, ds.data());
            a.scores(b, h, p, open, &slopes);
            for (int64_t i = 0; i < a.queries; ++i) {
                double* row = p.data() + i * a.keys;
                double* used = dropped.data() + i * a.keys;
                double* d = ds.data() + i * a.keys;
                const RowSum sum = softmax_row(row, open.data() + i * a.keys, a.keys, a.sink(h));
                if (sum.empty()) {
                    std::fill_n(used, a.keys, a.zero_empty ? 0 : 1 / static_cast<double>(a.keys));
                    std::fill_n(d, a.keys, 0.0);
                    continue;
                }
                double total = 0;
                for (int64_t j = 0; j < a.keys; ++j) {
                    const double keep = a.dropout > 0 ? a.keep(b, h, i, j) : 1;
                    used[j] = row[j] * keep;
                    d[j] *= keep;
                    total += row[j] * d[j];
                }
                for (int64_t j = 0; j < a.keys; ++j) d[j] = row[j] * (d[j] - total); // now the gradient of the scores
                if (double* dsinks = out(kSinksGradient))
                    dsinks[h] -= std::exp(a.sink(h) - sum.top - sum.log_total) * total;
            }
            if (double* dv = out(Attention::v))
                multiply({.m = a.keys, .k = a.queries, .n = a.value_width, .transpose_a = true, .accumulate = true},
                         dropped.data(), dy, dv + key_head * a.keys * a.value_width);
            if (double* dbias = out(Attention::bias)) {
                double* to = dbias + scores_at(call.out(Attention::bias).shape, b, h);
                for (std::size_t place = 0; place < size; ++place) to[place] += ds[place];
            }
            if (a.has_terms())
                for (int64_t i = 0; i < a.queries; ++i)
                    for (int64_t j = 0; j < a.keys; ++j)
                        a.for_each_term(b, h, i, j, [&](std::size_t input, int64_t term) {
                            if (double* to = out(input)) to[term] += ds[at(i * a.keys + j)];
                        });
            for (std::size_t place = 0; place < slopes.size(); ++place) ds[place] *= open[place] ? slopes[place] : 0;
            for (double& d : ds) d *= a.scale; // now the gradient of q.k
            if (double* dq = out(0))
                multiply({.m = a.queries, .k = a.keys, .n = a.width}, ds.data(),
                         a.data(Attention::k) + key_head * a.keys * a.width, dq + head * a.queries * a.width);
            if (double* dk = out(Attention::k))
                multiply({.m = a.keys, .k = a.queries, .n = a.width, .transpose_a = true, .accumulate = true},
                         ds.data(), a.data(0) + head * a.queries * a.width, dk + key_head * a.keys * a.width);
        }
    return {};
}

Result<Outputs> attention_cached_outputs(const Rule& r) {
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
    HK_TRY(r.expect(7, Shape{q[1]}));
    HK_TRY(soft_cap_ok(r));
    return one(r.kind(0), Shape{b, q[1], q[2], v[3]});
}

// Returns one of the two caches [rows, Hkv, capacity, D], creating it at the first use.
Result<Tensor*> cache_of(const Call& call, const char* suffix, const Tensor& like, int64_t rows, int64_t capacity) {
    if (call.caches == nullptr) return failed_precondition("attention_cached needs a place for its cache");
    Tensor& cache = (*call.caches)[call.node.text("cache") + suffix];
    if (cache.data.empty()) {
        cache.kind = like.kind;
        cache.shape = Shape{rows, like.shape[1], capacity, like.shape[3]};
        cache.data.assign(at(cache.shape.elements()), 0.0);
    }
    const Shape& shape = cache.shape;
    if (shape.rank() != 4 || shape[0] < rows || shape[1] != like.shape[1] || shape[2] < capacity ||
        shape[3] != like.shape[3])
        return invalid_argument(fmt::format("the cache '{}{}' is {}, expected at least {}", call.node.text("cache"),
                                            suffix, shape.text(),
                                            Shape{rows, like.shape[1], capacity, like.shape[3]}.text()));
    return &cache;
}

// A query of row b at index i < count[b] is at position start[b] + i and attends to keys 0 .. start[b] + count[b] - 1,
// as far as causal and window allow; the rest of y is 0. New keys are written to row b of the cache.
Status run_attention_cached(const Call& call) {
    enum Input : std::size_t { k = 1, v, start, count, cache_row, distance_bias, sinks };
    const Shape& q = call.in(0).shape;
    const int64_t batch = q[0], heads = q[1], chunk = q[2], width = q[3];
    const int64_t key_heads = call.in(k).shape[1], value_width = call.in(v).shape[3];
    const int64_t capacity = call.node.integer("capacity"), window = call.node.integer("window");
    const bool causal = call.node.integer("causal") != 0;
    const auto& table = call.node.ints("distance_table");
    const int64_t first = call.node.integer("distance_first");
    const double softcap = call.node.real("softcap");
    double scale = call.node.real("scale");
    if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(width));
    HK_ASSIGN(Tensor * keys, cache_of(call, ".k", call.in(k), batch, capacity));
    HK_ASSIGN(Tensor * values, cache_of(call, ".v", call.in(v), batch, capacity));
    const auto integer = [&](std::size_t input, int64_t i) { return static_cast<int64_t>(call.data(input)[i]); };
    const auto row_of = [](const Tensor& cache, int64_t row, int64_t head, int64_t place) {
        return ((row * cache.shape[1] + head) * cache.shape[2] + place) * cache.shape[3];
    };

    for (int64_t b = 0; b < batch; ++b) {
        const int64_t from = integer(start, b), many = integer(count, b);
        if (from < 0 || many < 0 || many > chunk || from + many > capacity)
            return invalid_argument(
                fmt::format("row {}: {} tokens at position {} do not fit a chunk of {} and a capacity "
                            "of {}",
                            b, many, from, chunk, capacity));
        for (int64_t j = 0; j < from + many; ++j)
            if (integer(cache_row, b * capacity + j) < 0 || integer(cache_row, b * capacity + j) >= keys->shape[0])
                return invalid_argument(fmt::format("row {}: cache_row of position {} is {}, the cache has {} rows", b,
                                                    j, integer(cache_row, b * capacity + j), keys->shape[0]));
        for (int64_t g = 0; g < key_heads; ++g)
            for (int64_t i = 0; i < many; ++i) {
                std::copy_n(call.data(k) + ((b * key_heads + g) * chunk + i) * width, width,
                            keys->data.data() + row_of(*keys, b, g, from + i));
                std::copy_n(call.data(v) + ((b * key_heads + g) * chunk + i) * value_width, value_width,
                            values->data.data() + row_of(*values, b, g, from + i));
            }
    }
    std::vector<double> p(at(capacity));
    std::vector<char> open(at(capacity));
    for (int64_t b = 0; b < batch; ++b)
        for (int64_t h = 0; h < heads; ++h)
            for (int64_t i = 0; i < integer(count, b); ++i) {
                const int64_t length = integer(start, b) + integer(count, b);
                const int64_t position = integer(start, b) + i;
                const int64_t g = h / (heads / key_heads);
                const double* query = call.data(0) + ((b * heads + h) * chunk + i) * width;
                for (int64_t j = 0; j < length; ++j) {
                    const int64_t distance = position - j;
                    open[at(j)] = (!causal || distance >= 0) && (window <= 0 || distance < window) ? 1 : 0;
                    const double* key = keys->data.data() + row_of(*keys, integer(cache_row, b * capacity + j), g, j);
                    double score = 0;
                    for (int64_t d = 0; d < width; ++d) score += query[d] * key[d];
                    p[at(j)] = score * scale;
                    if (softcap > 0) p[at(j)] = softcap * std::tanh(p[at(j)] / softcap);
                    if (call.has(distance_bias))
                        p[at(j)] += call.data(
                            distance_bias)[h * call.in(distance_bias).shape[1] + table_entry(table, distance, first)];
                }
                // Never empty: causal and any window allow a query's own key.
                softmax_row(p.data(), open.data(), length, call.has(sinks) ? call.data(sinks)[h] : -kInfinity);
                double* y = call.out().data.data() + ((b * heads + h) * chunk + i) * value_width;
                for (int64_t j = 0; j < length; ++j) {
                    const double* value =
                        values->data.data() + row_of(*values, integer(cache_row, b * capacity + j), g, j);
                    for (int64_t d = 0; d < value_width; ++d) y[d] += p[at(j)] * value[d];
                }
            }
    return {};
}

} // namespace

const OperationRules attention_rules{attention_outputs, attention_gradient, run_attention};
const OperationRules attention_gradient_rules{attention_gradient_outputs, nullptr, run_attention_gradient};
const OperationRules attention_cached_rules{attention_cached_outputs, nullptr, run_attention_cached};

} // namespace hekla::graph
