// Layers that pass on a state of fixed size: short causal convolutions and the gated delta rule. Their states are kept
// by name from chunk to chunk (mode decode), so that rows fed in chunks of any sizes give the same results.
#pragma once

#include "block.hpp"

#include <algorithm>
#include <vector>

namespace hekla::plugin {

// Returns whether each token of segments [B, T] has the segment of the token `by` before it: int32 [B, T], 0 where
// there is none.
inline Value same_segment(Graph& g, Value segments, int64_t by, Location at = Location::here()) {
    const Caller caller(g, at);
    const int64_t batch = segments.dim(0), length = segments.dim(1), before = std::min(by, length);
    const Value none = g.fill({batch, before}, -1.0, HK_KIND_INT32);
    const Value earlier = before < length ? concat({none, slice(segments, 1, 0, length - before)}, 1) : none;
    return equal(segments, earlier);
}

// Returns x [B, T, D] with zeros where the batch has padding, which must not reach a state.
inline Value without_padding(Graph& g, Value x, Location at = Location::here()) {
    const Caller caller(g, at);
    const Value mask = causal_padding(g);
    return mask ? x * to_float(reshape(mask, {x.dim(0), x.dim(1), 1})) : x;
}

// The weighed sum of each channel of x [B, T, C] over a token and the K - 1 before it. weight [C, 1, K], the last for
// the token itself; bias [C], or none. It restarts at the segments of a row.
inline Value causal_convolution(Graph& g, Value x, Value weight, Value bias, const std::string& name,
                                Location at = Location::here()) {
    const Caller caller(g, at);
    const int64_t length = x.dim(1), channels = x.dim(2), width = weight.dim(2);
    Value all = x;
    if (width > 1) {
        all = concat({state_read(g.fill({x.dim(0), width - 1, channels}, 0.0), name), x}, 1);
        state_write(slice(all, 1, length, width - 1), name);
    }
    Value y = bias;
    const Value segments = row_segments(g);
    for (int64_t i = 0; i < width; ++i) {
        Value term = slice(all, 1, i, length) * reshape(slice(weight, 2, i, 1), {channels});
        if (segments && i + 1 < width) {
            const Value seen = to_float(same_segment(g, segments, width - 1 - i));
            term = term * reshape(seen, {x.dim(0), length, 1});
        }
        y = y ? y + term : term;
    }
    return y;
}

// x / sqrt(sum x^2 + epsilon) over the last axis.
inline Value unit_length(Value x, double epsilon) {
    return x * rsqrt(sum(x * x, {x.rank() - 1}, {.keep = 1}) + epsilon);
}

// The delta rule with decay (Yang et al. 2024, "Gated delta networks"). q, k [B, H, T, D], v [B, H, T, Dv], decay and
// rate [B, H, T] -> [B, H, T, Dv], computed in float32. The state S [D, Dv] of a head begins with zeros; a token makes
// it exp(decay) S, adds rate k (v - S^T k)^T, and reads S^T q. Tokens are computed in chunks, and states once a chunk.
// At the first token of a segment S begins with zeros again.
inline Value gated_delta_rule(Graph& g, Value q, Value k, Value v, Value decay, Value rate, const std::string& name,
                              int64_t chunk = 64, Location at = Location::here()) {
    const Caller caller(g, at);
    const int64_t batch = q.dim(0), heads = q.dim(1), length = q.dim(2), size = q.dim(3), width = v.dim(3);
    const int64_t c = std::min(chunk, length), count = (length + c - 1) / c, added = count * c - length;
    // [B, H, T, ...rest] -> [B, H, count, c, ...rest]
    const auto chunks = [&](Value x, const Dims& rest) {
        const auto dims = [&](Dims first) {
            first.insert(first.end(), rest.begin(), rest.end());
            return first;
        };
        x = to_float32(x);
        if (added > 0) x = concat({x, g.fill(dims({batch, heads, added}), 0.0, HK_KIND_FLOAT32)}, 2);
        return reshape(x, dims({batch, heads, count, c}));
    };
    const auto square = [&](const auto& element) { // [c, c] of 1 and 0
        std::vector<double> values;
        for (int64_t i = 0; i < c; ++i)
            for (int64_t j = 0; j < c; ++j) values.push_back(element(i, j) ? 1.0 : 0.0);
        return g.constant(HK_KIND_FLOAT32, {c, c}, values);
    };
    const Dims column{batch, heads, count, c, 1};
    q = chunks(q, {size});
    k = chunks(k, {size});
    const Value rates = reshape(chunks(rate, {}), column);
    if (const Value segments = row_segments(g)) { // exp(-1e4) is 0
        const Value goes_on = reshape(same_segment(g, segments, 1), {batch, 1, length});
        decay = where(broadcast(goes_on, {batch, heads, length}), to_float32(decay), g.fill({}, -1e4));
    }
    const Value fading = reshape(chunks(decay, {}), column);
    const Value lower = square([](int64_t i, int64_t j) { return i >= j; });
    const Value strictly_lower = square([](int64_t i, int64_t j) { return i > j; });
    // From token j to a later i, as a sum of what is between them: a difference of sums from the beginning has
    // gradients that cancel each other.
    const Value sums = cumsum(fading * strictly_lower, 3), decays = exp(sums) * lower;

    // What a token reads of those before it in the chunk depends on what they read: the inverse of a triangular matrix,
    // by blocks of 1, 2, 4, ... tokens.
    const Value read = matmul(k * rates, k, {.transpose_b = 1}) * decays * strictly_lower;
    Value inverse = square([](int64_t i, int64_t j) { return i == j; });
    for (int64_t block = 1; block < c; block *= 2) {
        const Value below =
            read * square([&](int64_t i, int64_t j) {
                return i / (2 * block) == j / (2 * block) && i % (2 * block) >= block && j % (2 * block) < block;
            });
        inverse = inverse - (block == 1 ? below : matmul(matmul(inverse, below), inverse));
    }
    const Value whole = cumsum(fading, 3), growth = exp(whole); // from the beginning of the chunk
    const Value written = matmul(inverse, chunks(v, {width}) * rates), seen = matmul(inverse, k * rates * growth);
    const Value among = matmul(q, k, {.transpose_b = 1}) * decays, asked = q * growth;
    const Value last = slice(growth, 3, c - 1, 1);                         // [B, H, count, 1, 1]
    const Value kept = k * exp(reshape(slice(sums, 3, c - 1, 1), column)); // to the end of the chunk

    Value state = to_float32(state_read(g.fill({batch, heads, size, width}, 0.0, HK_KIND_FLOAT32), name));
    std::vector<Value> results;
    for (int64_t i = 0; i < count; ++i) {
        const auto of = [&](Value x) { return reshape(slice(x, 2, i, 1), {batch, heads, x.dim(3), x.dim(4)}); };
        const Value fresh = of(written) - matmul(of(seen), state);
        results.push_back(matmul(of(asked), state) + matmul(of(among), fresh));
        state = state * of(last) + matmul(of(kept), fresh, {.transpose_a = 1});
    }
    state_write(state, name);
    const Value y = count > 1 ? concat(results, 2) : results.front();
    return added > 0 ? slice(y, 2, 0, length) : y;
}

} // namespace hekla::plugin
