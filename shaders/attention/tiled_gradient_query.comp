#version 450
#extension GL_GOOGLE_include_directive : require
//! no-optimizer
//! variant t64x64 DOWN=16 ACROSS=16 CHUNK=16
//! variant t64x64_16 DOWN=16 ACROSS=16 CHUNK=16 STORAGE16
//! variant t32x128 DOWN=8 ACROSS=32 CHUNK=8
//! variant t32x128_16 DOWN=8 ACROSS=32 CHUNK=8 STORAGE16
//! variant t64x32 DOWN=16 ACROSS=8 CHUNK=16
//! variant t64x32_16 DOWN=16 ACROSS=8 CHUNK=16 STORAGE16
// What gradient_query.comp computes, for GPUs: dq, delta and the gradients of the scores' other terms, a workgroup per
// block of queries.
#define PREFETCH false
#include "attention/tile.glsl"

// Of the own rows 4 n + i: delta, and the two parts of lse.
shared vec4 deltas[DOWN];
shared vec4 row_max[DOWN];
shared vec4 row_log[DOWN];

// Stores delta = dy . y and lse of the own rows in shared memory, and delta in its tensor. One thread adds a row, in the
// order of `multiply`: where a query has a single key, dp - delta is exactly 0.
void load_rows(Record r, uint64_t rows, uint first, Rows dy, Rows y) {
    if (thread < kOwn) {
        const uint row = min(thread, dy.last);
        float delta = 0.0;
        uint d = 0;
        [[dont_unroll]] do {
            const vec4 a = load_quad(dy, row * dy.stride, d, DV);
            const vec4 b = load_quad(y, row * y.stride, d, DV);
            delta = fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, delta))));
            d += 4;
        } while (d < DV);
        const uint64_t at = rows + first + row;
        const vec2 lse = given_pair(r.lse, at * 2);
        deltas[thread / 4][thread % 4] = delta;
        row_max[thread / 4][thread % 4] = lse.x;
        row_log[thread / 4][thread % 4] = lse.y;
        if (thread <= dy.last) store_float(r.delta, at, delta, kF32);
    }
    barrier();
}

// Adds ds [kOwn, kOther] to the rows of query_distance_gradient. One thread has a row and adds in a fixed order.
void add_to_buckets(Record r, vec4 ds[4], uint b, uint first, uint64_t rows, uint j0) {
    uint slice = 0;
    [[dont_unroll]] do {
        tile[across * kTileStride + down] = slice_of(ds, slice);
        barrier();
        if (thread < kOwn && first + thread < r.queries) {
            const uint i = min(first + thread, r.queries - 1);
            uint n = 0;
            [[dont_unroll]] do {
                const uint j = j0 + n * 4 + slice;
                const int distance = query_position(r, b, i) - key_position(r, b, min(j, r.keys - 1));
                const uint64_t at = (rows + i) * r.buckets + bucket(r, distance);
                const float before = load_float(r.query_distance_gradient, at, kF32);
                if (j < r.keys)
                    store_float(r.query_distance_gradient, at,
                                before + tile[n * kTileStride + thread / 4][thread % 4], kF32);
            } while (++n < kSlice);
        }
        barrier();
    } while (++slice < 4);
}

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    // Causal rows are dispatched longest first.
    const uint block = has(kCausal) ? r.blocks - 1 - group % r.blocks : group % r.blocks;
    const uint first = block * kOwn;
    const uint h = (group / r.blocks) % r.heads;
    const uint b = group / r.blocks / r.heads;
    const uint g = h / (r.heads / r.key_heads);
    const uint64_t rows = (uint64_t(b) * r.heads + h) * r.queries;
    const Rows queries =
        rows_from(head_at(r.q, b, r.q_b, h, r.q_h, kTypeQ), r.q_t, first, r.queries, kTypeQ);
    const Rows dy = rows_from(head_at(r.dy, b, r.dy_b, h, r.dy_h, kTypeDy), r.dy_t, first, r.queries, kTypeDy);
    const uint64_t keys = head_at(r.k, b, r.k_b, g, r.k_h, kTypeK);
    const uint64_t values = head_at(r.v, b, r.v_b, g, r.v_h, kTypeV);
    const uvec4 key = random_key(r);

    load_rows(r, rows, first, dy,
              rows_from(head_at(r.y, b, r.y_b, h, r.y_h, kTypeY), r.y_t, first, r.queries, kTypeY));
    vec4 dq[kRowsD * kPartsD];
    [[unroll]] for (uint n = 0; n < kRowsD * kPartsD; ++n) dq[n] = vec4(0.0);
    vec4 same = vec4(0.0), crossing = vec4(0.0);

    uint j0 = 0;
    uint end = r.keys;
    if (has(kCausal) && !has(kPositions | kPrefix | kBiasGradient)) end = clamp(first + kOwn, 1, r.keys);
    if (has(kWindowAfter) && !has(kPositions | kBiasGradient)) end = end_of_window(r, first + kOwn, end);
    if (has(kWindow) && !has(kPositions | kBiasGradient)) {
        j0 = uint(max(int(first) - r.window + 1, 0));
        j0 = min(j0, r.keys - 1) / kOther * kOther;
    }
    [[dont_unroll]] do {
        vec4 s[4] = {vec4(0.0), vec4(0.0), vec4(0.0), vec4(0.0)};
        multiply(s, queries, rows_from(keys, r.k_t, j0, r.keys, kTypeK), D);
        const vec4 largest = row_max[down], logarithm = row_log[down];
        vec4 slopes[4]; // of capped scores
        uint mask[4];
        [[unroll]] for (uint i = 0; i < 4; ++i)
            mask[i] = mask_of(r, b, h, min(first + down * 4 + i, r.queries - 1), j0 + across * 4);
        [[unroll]] for (uint j = 0; j < 4; ++j) {
            const uint column = j0 + across * 4 + j;
            const uint jj = min(column, r.keys - 1);
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                const uint ii = min(first + down * 4 + i, r.queries - 1);
                const bool allowed = is_allowed(r, b, ii, jj, mask[i] >> j) && column < r.keys && logarithm[i] != kEmptyRow;
                const float s_capped = capped(r, s[j][i] * r.scale);
                if (has(kSoftcap)) slopes[j][i] = slope_of_capped(r, s_capped);
                const float score = s_capped + extra_score(r, b, h, ii, jj);
                s[j][i] = allowed ? exp_of_score(score - largest[i] - logarithm[i]) : 0.0;
            }
        }
        vec4 dp[4] = {vec4(0.0), vec4(0.0), vec4(0.0), vec4(0.0)};
        multiply(dp, dy, rows_from(values, r.v_t, j0, r.keys, kTypeV), DV);
        if (has(kDropout)) {
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                const uint ii = min(first + down * 4 + i, r.queries - 1);
                const vec4 kept = keep_four(r, key, b, h, ii, j0 + across * 4);
                [[unroll]] for (uint j = 0; j < 4; ++j) dp[j][i] *= kept[j];
            }
        }
        const vec4 delta = deltas[down];
        [[unroll]] for (uint j = 0; j < 4; ++j) {
            const uint column = j0 + across * 4 + j;
            const uint jj = min(column, r.keys - 1);
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                // The probability is 0 where the pair is not allowed, whatever dp is.
                s[j][i] = s[j][i] == 0.0 ? 0.0 : s[j][i] * (dp[j][i] - delta[i]);
                const uint row = first + down * 4 + i;
                const uint ii = min(row, r.queries - 1);
                if (has(kBiasGradient)) {
                    if (row < r.queries && column < r.keys)
                        store_float(r.bias_gradient, (rows + ii) * r.keys + jj, s[j][i], kF32);
                }
                if (has(kQueryClassGradient)) {
                    const bool other = crosses(r, b, ii, jj);
                    crossing[i] += other ? s[j][i] : 0.0;
                    same[i] += other ? 0.0 : s[j][i];
                }
            }
        }
        if (has(kQueryDistanceGradient)) add_to_buckets(r, s, b, first, rows, j0);
        if (has(kSoftcap)) {
            [[unroll]] for (uint j = 0; j < 4; ++j) s[j] *= slopes[j];
        }
        APPLY(dq, D, kColumnsD, kRowsD, kPartsD, kTakeD, slice_of(s, hekla_slice), rows_from(keys, r.k_t, j0, r.keys, kTypeK))
        j0 += kOther;
    } while (j0 < end);

    const Rows to = rows_from(head_at(r.dq, b, r.dq_b, h, r.dq_h, kTypeDq), r.dq_t, first, r.queries, kTypeDq);
    const vec4 factors = vec4(r.scale);
    STORE_SUMS(dq, D, kColumnsD, kRowsD, kPartsD, to, factors)
    if (has(kQueryClassGradient)) {
        same = sum_across(same);
        crossing = sum_across(crossing);
        if (across == 0) {
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                const uint row = first + down * 4 + i;
                const uint64_t at = (rows + min(row, r.queries - 1)) * 2;
                if (row < r.queries) {
                    store_float(r.query_class_gradient, at, same[i], kF32);
                    store_float(r.query_class_gradient, at + 1, crossing[i], kF32);
                }
            }
        }
    }
}
