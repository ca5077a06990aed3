#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant 16 STORAGE16
// Attention over a cache, one query per subgroup: lanes take keys in turn, each with its own online softmax and sum,
// which are combined at the end in a fixed order. The work depends on the length, not on the capacity. The first of the
// heads that share new keys and values (i < count[b], at position start[b] + i) stores them in the cache. Every row
// reads new ones from k and v, not from the cache, so no workgroup waits for another.
#include "common.glsl"
#include "lanes.glsl"
#include "math.glsl"
#include "attention/record.h"

PUSH_RECORD(CachedRecord);

layout(constant_id = 1) const uint D = 32;
layout(constant_id = 2) const uint DV = 32;
layout(constant_id = 3) const uint W = 1;
layout(constant_id = 4) const uint CAUSAL = 0;
layout(constant_id = 5) const uint DISTANCE = 0;
layout(constant_id = 6) const uint TYPE = 0; // of the cache
layout(constant_id = 7) const uint SOFTCAP = 0;
layout(constant_id = 8) const uint SINKS = 0;

// Loads this lane's W elements of a row.
vec2 load_own(uint64_t row, uint i, uint width) {
    const vec2 x = W == 2 ? load_pair(row, uint64_t(min(i, width - 2)), kF32)
                          : vec2(load_float(row, uint64_t(min(i, width - 1)), kF32), 0.0);
    return i < width ? x : vec2(0.0);
}

// The same for a key or value: a new one, in float32, is rounded as the cache rounds it.
vec2 load_cached(uint64_t row, uint i, uint width, bool is_new) {
#ifdef STORAGE16
    if (TYPE != kF32) {
        if (is_new) {
            const vec2 x = load_own(row, i, width);
            return vec2(unpack_half(TYPE, pack_half(TYPE, x.x)), unpack_half(TYPE, pack_half(TYPE, x.y)));
        }
        const vec2 x = W == 2 ? load_pair(row, uint64_t(min(i, width - 2)), TYPE)
                              : vec2(load_float(row, uint64_t(min(i, width - 1)), TYPE), 0.0);
        return i < width ? x : vec2(0.0);
    }
#endif
    return load_own(row, i, width);
}

void main() {
    CachedRecord r = record;
    HEKLA_GROUP(group, r)
    const uint i = group % r.chunk;
    const uint h = (group / r.chunk) % r.heads;
    const uint b = group / r.chunk / r.heads;
    const uint g = h / (r.heads / r.key_heads);
    const int start = load_int(r.start, uint64_t(b));
    const int count = load_int(r.count, uint64_t(b));
    const bool in_range = int(i) < count;
    const int position = start + int(i);
    const int length = clamp(start + count, 1, int(r.capacity));
    const uint end = uint(CAUSAL != 0 ? clamp(position + 1, 1, length) : length);
    uint j0 = r.window > 0 ? uint(clamp(position - r.window + 1, 0, int(end) - 1)) : 0;
    const uint64_t query = r.q + (uint64_t(b) * r.q_b + uint64_t(h) * r.q_h + uint64_t(i) * r.q_t) * 4ul;

    if (in_range && h % (r.heads / r.key_heads) == 0 && position >= 0 && position < int(r.capacity)) {
        const uint64_t to = (uint64_t(b) * r.key_heads + g) * r.capacity + uint(position);
        const uint64_t k = r.k + (uint64_t(b) * r.k_b + uint64_t(g) * r.k_h + uint64_t(i) * r.k_t) * 4ul;
        const uint64_t v = r.v + (uint64_t(b) * r.v_b + uint64_t(g) * r.v_h + uint64_t(i) * r.v_t) * 4ul;
        HEKLA_EACH_SHARE(d, D, W, { store_part_of(r.key_cache + to * D * bytes_of(TYPE), d, D, W, load_part(k, d, D, W, 0.0), TYPE); })
        HEKLA_EACH_SHARE(d, DV, W, { store_part_of(r.value_cache + to * DV * bytes_of(TYPE), d, DV, W, load_part(v, d, DV, W, 0.0), TYPE); })
    }

    // The query, spread over the lanes.
    vec2 q[(D + S * W - 1) / (S * W)];
    [[unroll]] for (uint n = 0; n < (D + S * W - 1) / (S * W); ++n)
        q[n] = load_own(query, (n * S + gl_SubgroupInvocationID) * W, D) * r.scale;
    float y[DV];
    [[unroll]] for (uint d = 0; d < DV; ++d) y[d] = 0.0;
    float lane_max = -kInfinity;
    float lane_sum = 0.0;
    do {
        const uint at_key = j0 + gl_SubgroupInvocationID;
        const uint j = min(at_key, end - 1);
        const uint from_row = uint(clamp(load_int(r.cache_row, uint64_t(b) * r.capacity + j), 0, int(r.cache_rows) - 1));
        const uint64_t at = (uint64_t(from_row) * r.key_heads + g) * r.capacity + j;
        const int ahead = int(j) - load_int(r.start, uint64_t(from_row)); // among that row's new keys
        const bool is_new = ahead >= 0 && ahead < min(load_int(r.count, uint64_t(from_row)), int(r.chunk));
        const uint64_t made = uint64_t(is_new ? ahead : 0);
        const uint64_t key = is_new ? r.k + (uint64_t(from_row) * r.k_b + uint64_t(g) * r.k_h + made * r.k_t) * 4ul
                                    : r.key_cache + at * D * bytes_of(TYPE);
        float s = 0.0;
        [[unroll]] for (uint d = 0; d < D; d += W) {
            const vec2 x = load_cached(key, d, D, is_new);
            s = fma(subgroupBroadcast(q[d / (S * W)].x, (d / W) % S), x.x, s);
            if (W == 2) s = fma(subgroupBroadcast(q[d / (S * W)].y, (d / W) % S), x.y, s);
        }
        if (SOFTCAP != 0) s = r.softcap * tanh_(s / r.softcap);
        if (DISTANCE != 0) {
            const int t = clamp(position - int(j) - r.distance_first, 0, int(r.table_length) - 1);
            s += load_float(r.distance_bias, uint64_t(h) * r.buckets + uint(load_int(r.table, uint64_t(uint(t)))), kF32);
        }
        if (at_key >= end) s = -kInfinity;
        const float new_max = max(lane_max, s);
        const float base = new_max == -kInfinity ? 0.0 : new_max;
        const float rescale = exp_(lane_max - base);
        const float p = exp_(s - base);
        lane_max = new_max;
        lane_sum = lane_sum * rescale + p;
        const uint64_t value = is_new ? r.v + (uint64_t(from_row) * r.v_b + uint64_t(g) * r.v_h + made * r.v_t) * 4ul
                                      : r.value_cache + at * DV * bytes_of(TYPE);
        [[unroll]] for (uint d = 0; d < DV; d += W) {
            const vec2 x = load_cached(value, d, DV, is_new);
            y[d] = y[d] * rescale + p * x.x;
            if (W == 2) y[d + W - 1] = y[d + W - 1] * rescale + p * x.y;
        }
        j0 += S;
    } while (j0 < end);

    const float row_max = lanes_max(lane_max);
    const float rescale = exp_(lane_max - row_max);
    float sum_of_row = lanes_sum(lane_sum * rescale);
    if (SINKS != 0) sum_of_row += exp_(load_float(r.sinks, uint64_t(h), kF32) - row_max);
    const float factor = 1.0 / sum_of_row;
    const uint64_t to = r.y + (uint64_t(b) * r.y_b + uint64_t(h) * r.y_h + uint64_t(i) * r.y_t) * 4ul;
    [[unroll]] for (uint d = 0; d < DV; ++d) {
        const float sum = lanes_sum(y[d] * rescale) * factor;
        if (gl_SubgroupInvocationID == d % S) store_float(to, uint64_t(d), in_range ? sum : 0.0, kF32);
    }
}
