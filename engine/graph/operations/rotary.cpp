// Rotary positions (Su et al. 2021).
#include "graph/gradient/backward.hpp"
#include "graph/operations/rules.hpp"
#include "graph/operations/shape_rule.hpp"
#include "graph/reference/call.hpp"

namespace hekla::graph {
namespace {

Result<Outputs> rotary_outputs(const Rule& r) {
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

// y1 = x1 c - x2 s, y2 = x2 c + x1 s (with s negative for inverse): the gradient of c and s is summed over the heads
// and over all tokens at that position.
void rotary_table_gradient(Backward& b) {
    const ValueId x = b.x(0), dy = b.dy();
    const Shape xs = b.shape(x), table = b.shape(b.x(1));
    const int64_t half = table[1];
    const bool interleaved = b.node().integer("interleaved") != 0;
    const auto part = [&](ValueId value, int64_t which) {
        return interleaved ? b.slice(value, 3, which, half, 2) : b.slice(value, 3, which * half, half);
    };
    if (half == 0) return;
    ValueId positions = b.x(3);
    if (positions == kNone) positions = b.builder().positions(xs[0], xs[2]);
    const auto to_table = [&](ValueId by_token) { // [B, H, T, R/2]
        return b.builder()(Op::embedding_gradient, {b.sum(by_token, {1}, false), positions}, {{"rows", table[0]}});
    };
    const ValueId x1 = part(x, 0), x2 = part(x, 1), d1 = part(dy, 0), d2 = part(dy, 1);
    if (b.wants(1)) b.give(1, to_table(b.add(b.mul(d1, x1), b.mul(d2, x2))));
    if (b.wants(2)) {
        const ValueId turned = b.sub(b.mul(d2, x1), b.mul(d1, x2));
        b.give(2, to_table(b.node().integer("inverse") != 0 ? b.neg(turned) : turned));
    }
}

void rotary_gradient(Backward& b) {
    const Node& node = b.node();
    if (b.wants(0))
        b.give(0, b.builder()(Op::rotary, {b.dy(), b.x(1), b.x(2), b.x(3)},
                              {{"interleaved", node.integer("interleaved")},
                               {"inverse", int64_t{node.integer("inverse") == 0}}}));
    if (b.wants(1) || b.wants(2)) rotary_table_gradient(b);
}

Status run_rotary(const Call& call) {
    const Tensor& x = call.in(0);
    const int64_t batch = x.shape[0], heads = x.shape[1], length = x.shape[2], width = x.shape[3];
    const int64_t half = call.in(1).shape[1];
    const bool interleaved = call.node.integer("interleaved") != 0;
    const double direction = call.node.integer("inverse") != 0 ? -1 : 1;
    if (call.has(3)) HK_TRY(indices_ok(call.in(3), "positions", call.in(1).shape[0], "cosine"));
    call.out().data = x.data;
    double* y = call.out().data.data();
    for (int64_t b = 0; b < batch; ++b)
        for (int64_t h = 0; h < heads; ++h)
            for (int64_t t = 0; t < length; ++t, y += width) {
                const int64_t position = call.has(3) ? index_at(call.in(3), b * length + t) : t;
                for (int64_t i = 0; i < half; ++i) {
                    double& first = y[interleaved ? 2 * i : i];
                    double& second = y[interleaved ? 2 * i + 1 : i + half];
                    const double cosine = call.data(1)[position * half + i];
                    const double sine = call.data(2)[position * half + i] * direction;
                    const double turned = first * cosine - second * sine;
                    second = second * cosine + first * sine;
                    first = turned;
                }
            }
    return {};
}

} // namespace

const OperationRules rotary_rules{rotary_outputs, rotary_gradient, run_rotary};

} // namespace hekla::graph
