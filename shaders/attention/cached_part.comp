#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant 16 STORAGE16
// Attention over a cache on GPUs, one new token per row: a workgroup of T invocations attends HEADS queries that share
// keys and values to kKeysPerPart keys. LANES neighboring lanes, a team, take a key together, QUADS quads of its elements
// each; every team has its own online softmax and sum, which are combined at the end in a fixed order. If the cache has one
// part, this is the result; otherwise cached_sum.comp combines the parts. Parts past the row's length return immediately.
#define HEKLA_INVOCATIONS_ID 1
#include "common.glsl"
#include "lanes.glsl"
#include "math.glsl"
#include "attention/record.h"
#include "attention/exponential.glsl"

PUSH_RECORD(CachedRecord);

layout(constant_id = 1) const uint T = 128;
layout(constant_id = 2) const uint D = 32;
layout(constant_id = 3) const uint DV = 32;
layout(constant_id = 4) const uint LANES = 8;
layout(constant_id = 5) const uint HEADS = 1;
layout(constant_id = 6) const uint DISTANCE = 0;
layout(constant_id = 7) const uint TYPE = 0; // of the cache
layout(constant_id = 8) const uint SOFTCAP = 0;
layout(constant_id = 9) const uint SINKS = 0;

const uint QUADS = ((D > DV ? D : DV) / 4 + LANES - 1) / LANES;
const uint TEAMS = T / LANES; // keys of an iteration
const uint UNROLLED = 4;
const uint SUBGROUPS = T / S;
const uint kNew = 0x80000000u;

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Quads { vec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer NewQuads { vec4 v; };
#ifdef STORAGE16
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer HalfQuads { uvec2 v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) writeonly buffer NewHalfQuads { uvec2 v; };
#endif

shared uint row_of_key[kKeysPerPart]; // whose cache holds it; with kNew: it is the row's new key
shared vec2 of_subgroup[SUBGROUPS];   // maximum and sum
shared vec4 sum_of_subgroup[SUBGROUPS * LANES * QUADS];

vec4 load_cached(uint64_t row, uint quad) {
#ifdef STORAGE16
    if (TYPE != kF32) return unpack_four(TYPE, HalfQuads(row + uint64_t(quad) * 8ul).v);
#endif
    return Quads(row + uint64_t(quad) * 16ul).v;
}
// Returns a new quad as it reads from the cache.
vec4 load_new(uint64_t row, uint quad) {
    const vec4 x = Quads(row + uint64_t(quad) * 16ul).v;
#ifdef STORAGE16
    if (TYPE != kF32) return unpack_four(TYPE, pack_four(TYPE, x));
#endif
    return x;
}
void store_cached(uint64_t row, uint quad, vec4 x) {
#ifdef STORAGE16
    if (TYPE != kF32) {
        NewHalfQuads(row + uint64_t(quad) * 8ul).v = pack_four(TYPE, x);
        return;
    }
#endif
    NewQuads(row + uint64_t(quad) * 16ul).v = x;
}

void main() {
    CachedRecord r = record;
    HEKLA_GROUP(group, r)
    const uint part = group % r.parts;
    const uint sharing = r.heads / r.key_heads / HEADS; // workgroups for the queries of a key head
    const uint first_head = group / r.parts % (r.key_heads * sharing) * HEADS;
    const uint g = first_head / (HEADS * sharing);
    const uint b = group / r.parts / (r.key_heads * sharing);
    const int position = load_int(r.start, uint64_t(b));
    const bool takes_part = load_int(r.count, uint64_t(b)) > 0;
    const uint end = uint(clamp(position + 1, 1, int(r.capacity)));
    const uint begin = r.window > 0 ? uint(clamp(position - r.window + 1, 0, int(end) - 1)) : 0;
    const uint from = max(part * kKeysPerPart, begin);
    const uint to = min((part + 1) * kKeysPerPart, end);
    if (from >= to) return;

    const uint64_t bytes = bytes_of(TYPE);
    const uint64_t new_key = r.k + (uint64_t(b) * r.k_b + uint64_t(g) * r.k_h) * 4ul;
    const uint64_t new_value = r.v + (uint64_t(b) * r.v_b + uint64_t(g) * r.v_h) * 4ul;
    const uint thread = gl_LocalInvocationID.x;
    if (takes_part && first_head % (r.heads / r.key_heads) == 0 && uint(position) >= from && uint(position) < to) {
        const uint64_t at = (uint64_t(b) * r.key_heads + g) * r.capacity + uint(position);
        for (uint quad = thread; quad < D / 4; quad += T)
            store_cached(r.key_cache + at * D * bytes, quad, Quads(new_key + uint64_t(quad) * 16ul).v);
        for (uint quad = thread; quad < DV / 4; quad += T)
            store_cached(r.value_cache + at * DV * bytes, quad, Quads(new_value + uint64_t(quad) * 16ul).v);
    }
    for (uint n = thread; n < to - from; n += T) {
        const uint row = uint(clamp(load_int(r.cache_row, uint64_t(b) * r.capacity + from + n), 0, int(r.cache_rows) - 1));
        const bool is_new = load_int(r.start, uint64_t(row)) == int(from + n) && load_int(r.count, uint64_t(row)) > 0;
        row_of_key[n] = is_new ? row | kNew : row;
    }

    const uint lane = thread % LANES;
    vec4 q[HEADS][QUADS];
    vec4 y[HEADS][QUADS];
    float team_max[HEADS];
    float team_sum[HEADS];
    [[unroll]] for (uint h = 0; h < HEADS; ++h) {
        const uint64_t query = r.q + (uint64_t(b) * r.q_b + uint64_t(first_head + h) * r.q_h) * 4ul;
        [[unroll]] for (uint n = 0; n < QUADS; ++n) {
            const uint quad = n * LANES + lane;
            q[h][n] = quad < D / 4 ? Quads(query + uint64_t(quad) * 16ul).v * r.scale : vec4(0.0);
            y[h][n] = vec4(0.0);
        }
        team_max[h] = -kInfinity;
        team_sum[h] = 0.0;
    }
    barrier();

    for (uint iteration = from; iteration < to; iteration += TEAMS * UNROLLED) {
        const uint j0 = iteration + thread / LANES;
        vec4 keys[UNROLLED][QUADS];
        vec4 values[UNROLLED][QUADS];
        [[unroll]] for (uint u = 0; u < UNROLLED; ++u) {
            const uint j = min(j0 + u * TEAMS, to - 1);
            const uint where = row_of_key[j - from];
            const uint64_t row = uint64_t(where & ~kNew);
            const uint64_t at = (row * r.key_heads + g) * r.capacity + j;
            const uint64_t key = r.key_cache + at * D * bytes;
            const uint64_t value = r.value_cache + at * DV * bytes;
            [[unroll]] for (uint n = 0; n < QUADS; ++n) {
                const uint quad = n * LANES + lane;
                keys[u][n] = vec4(0.0);
                values[u][n] = vec4(0.0);
                if (where < kNew) {
                    if (quad < D / 4) keys[u][n] = load_cached(key, quad);
                    if (quad < DV / 4) values[u][n] = load_cached(value, quad);
                } else {
                    if (quad < D / 4)
                        keys[u][n] = load_new(r.k + (row * r.k_b + uint64_t(g) * r.k_h) * 4ul, quad);
                    if (quad < DV / 4)
                        values[u][n] = load_new(r.v + (row * r.v_b + uint64_t(g) * r.v_h) * 4ul, quad);
                }
            }
        }
        [[unroll]] for (uint h = 0; h < HEADS; ++h) {
            float s[UNROLLED];
            float new_max = team_max[h];
            [[unroll]] for (uint u = 0; u < UNROLLED; ++u) {
                vec4 products = q[h][0] * keys[u][0];
                [[unroll]] for (uint n = 1; n < QUADS; ++n) products = fma(q[h][n], keys[u][n], products);
                float score = (products.x + products.y) + (products.z + products.w);
                [[unroll]] for (uint step = 1; step < LANES; step *= 2) score += subgroupShuffleXor(score, step);
                const uint j = j0 + u * TEAMS;
                if (SOFTCAP != 0) score = r.softcap * tanh_(score / r.softcap);
                if (DISTANCE != 0) {
                    const int t = clamp(position - int(j) - r.distance_first, 0, int(r.table_length) - 1);
                    score += load_float(r.distance_bias,
                                        uint64_t(first_head + h) * r.buckets + uint(load_int(r.table, uint64_t(uint(t)))), kF32);
                }
                s[u] = j < to ? score : -kInfinity;
                new_max = max(new_max, s[u]);
            }
            const float base = new_max == -kInfinity ? 0.0 : new_max;
            const float rescale = exp_of_score(team_max[h] - base);
            team_max[h] = new_max;
            team_sum[h] *= rescale;
            [[unroll]] for (uint n = 0; n < QUADS; ++n) y[h][n] *= rescale;
            [[unroll]] for (uint u = 0; u < UNROLLED; ++u) {
                const float p = exp_of_score(s[u] - base);
                team_sum[h] += p;
                [[unroll]] for (uint n = 0; n < QUADS; ++n) y[h][n] = fma(vec4(p), values[u][n], y[h][n]);
            }
        }
    }

    // The teams of a subgroup, then the subgroups.
    [[unroll]] for (uint h = 0; h < HEADS; ++h) {
        float largest = team_max[h];
        [[unroll]] for (uint step = LANES; step < S; step *= 2) largest = max(largest, subgroupShuffleXor(largest, step));
        const float base = largest == -kInfinity ? 0.0 : largest;
        const float rescale = exp_of_score(team_max[h] - base);
        float sum = team_sum[h] * rescale;
        [[unroll]] for (uint step = LANES; step < S; step *= 2) sum += subgroupShuffleXor(sum, step);
        [[unroll]] for (uint n = 0; n < QUADS; ++n) {
            vec4 x = y[h][n] * rescale;
            [[unroll]] for (uint step = LANES; step < S; step *= 2) x += subgroupShuffleXor(x, step);
            y[h][n] = x;
        }
        barrier(); // the last head's values have been read
        if (gl_SubgroupInvocationID < LANES)
            [[unroll]] for (uint n = 0; n < QUADS; ++n) sum_of_subgroup[(gl_SubgroupID * QUADS + n) * LANES + lane] = y[h][n];
        if (gl_SubgroupInvocationID == 0) of_subgroup[gl_SubgroupID] = vec2(largest, sum);
        barrier();
        largest = of_subgroup[0].x;
        for (uint i = 1; i < SUBGROUPS; ++i) largest = max(largest, of_subgroup[i].x);
        sum = 0.0;
        for (uint i = 0; i < SUBGROUPS; ++i) sum += of_subgroup[i].y * exp_of_score(of_subgroup[i].x - largest);
        const bool whole = r.parts == 1;
        if (SINKS != 0 && whole)
            sum += exp_of_score(load_float(r.sinks, uint64_t(first_head + h), kF32) - largest);
        const uint64_t to_row = whole ? r.y + (uint64_t(b) * r.y_b + uint64_t(first_head + h) * r.y_h) * 4ul
                                      : r.sums + ((uint64_t(b) * r.heads + first_head + h) * r.parts + part) * DV * 4ul;
        for (uint quad = thread; quad < DV / 4; quad += T) {
            vec4 x = vec4(0.0);
            for (uint i = 0; i < SUBGROUPS; ++i)
                x += sum_of_subgroup[i * QUADS * LANES + quad] * exp_of_score(of_subgroup[i].x - largest);
            NewQuads(to_row + uint64_t(quad) * 16ul).v = whole ? (takes_part ? x / sum : vec4(0.0)) : x;
        }
        if (!whole && thread == 0) {
            const uint64_t at = ((uint64_t(b) * r.heads + first_head + h) * r.parts + part) * 2;
            store_float(r.numbers, at, largest, kF32);
            store_float(r.numbers, at + 1, sum, kF32);
        }
    }
}
