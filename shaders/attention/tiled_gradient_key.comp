#version 450
#extension GL_GOOGLE_include_directive : require
//! no-optimizer
//! variant t64x64 DOWN=16 ACROSS=16 CHUNK=16
//! variant t64x64_16 DOWN=16 ACROSS=16 CHUNK=16 STORAGE16
//! variant t32x128 DOWN=8 ACROSS=32 CHUNK=8
//! variant t32x128_16 DOWN=8 ACROSS=32 CHUNK=8 STORAGE16
//! variant t64x32 DOWN=16 ACROSS=8 CHUNK=16
//! variant t64x32_16 DOWN=16 ACROSS=8 CHUNK=16 STORAGE16
// What gradient_key.comp computes, for GPUs: dk, dv and the gradient of key_distance, a workgroup per block of keys. The
// query heads of a group are processed one after the other.
#define PREFETCH false
#include "attention/tile.glsl"

// Which of dk (1) and dv (2) are computed: both, or one where registers do not suffice for both.
layout(constant_id = 4) const uint OUTPUTS = 3;
const bool kHasDk = (OUTPUTS & 1) != 0;
const bool kHasDv = (OUTPUTS & 2) != 0;

// Adds ds [kOwn, kOther] to the rows of key_distance_gradient. One thread has a row and adds in a fixed order.
void add_to_buckets(Record r, vec4 ds[4], uint b, uint h, uint first, uint i0) {
    uint slice = 0;
    [[dont_unroll]] do {
        tile[across * kTileStride + down] = slice_of(ds, slice);
        barrier();
        if (thread < kOwn && first + thread < r.keys) {
            const uint j = min(first + thread, r.keys - 1);
            uint n = 0;
            [[dont_unroll]] do {
                const uint i = i0 + n * 4 + slice;
                const int distance = query_position(r, b, min(i, r.queries - 1)) - key_position(r, b, j);
                const uint64_t at =
                    ((uint64_t(b) * r.heads + h) * r.keys + j) * r.key_buckets + key_bucket(r, distance);
                const float before = load_float(r.key_distance_gradient, at, kF32);
                if (i < r.queries)
                    store_float(r.key_distance_gradient, at,
                                before + tile[n * kTileStride + thread / 4][thread % 4], kF32);
            } while (++n < kSlice);
        }
        barrier();
    } while (++slice < 4);
}

// Returns the factors of dy in dv: the probabilities that dropout keeps, and the share of a row with nothing allowed.
vec4 used(Record r, vec4 p, float share) {
    return (has(kDropout) ? max(p, 0.0) * r.dropout_factor : p) + share;
}

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const uint first = group % r.blocks * kOwn;
    const uint g = (group / r.blocks) % r.key_heads;
    const uint b = group / r.blocks / r.key_heads;
    const uint shared_by = r.heads / r.key_heads;
    const Rows keys = rows_from(head_at(r.k, b, r.k_b, g, r.k_h, kTypeK), r.k_t, first, r.keys, kTypeK);
    const Rows values = rows_from(head_at(r.v, b, r.v_b, g, r.v_h, kTypeV), r.v_t, first, r.keys, kTypeV);
    const uvec4 key = random_key(r);

    vec4 dk[kRowsD * kPartsD];
    [[unroll]] for (uint n = 0; n < kRowsD * kPartsD; ++n) dk[n] = vec4(0.0);
    vec4 dv[kRowsV * kPartsV];
    [[unroll]] for (uint n = 0; n < kRowsV * kPartsV; ++n) dv[n] = vec4(0.0);

    // Scores of -infinity can make a row empty too, but causal and dropout alone cannot.
    const bool shares_empty = !has(kZeroEmpty) && (OPTIONS & 0xFFFFu & ~(kCausal | kDropout)) != 0;
    // Rows with nothing allowed spread their gradient over all keys. If there are none, or their gradient is 0, queries
    // begin at the diagonal of a causal block and end with its window.
    const bool has_masks = has(kKeyPadding | kQueryPadding | kMask | kGroups);
    const bool only_near = !has(kPositions | kPrefix) &&
                           (has(kZeroEmpty) || !has_masks && (!has(kWindow) || r.queries <= r.keys));
    uint begin = 0;
    uint end = r.queries;
    if (has(kCausal) && only_near) begin = min(first, r.queries - 1) / kOther * kOther;
    if (has(kWindowAfter) && !has(kCausal) && only_near) begin = begin_of_window(r, first) / kOther * kOther;
    if (has(kWindow) && only_near) end = clamp(first + kOwn - 1 + min(uint(r.window), r.queries), 1, r.queries);

    uint hh = 0;
    [[dont_unroll]] do {
        const uint h = g * shared_by + hh;
        const uint64_t queries = head_at(r.q, b, r.q_b, h, r.q_h, kTypeQ);
        const uint64_t gradients = head_at(r.dy, b, r.dy_b, h, r.dy_h, kTypeDy);
        const uint64_t rows = (uint64_t(b) * r.heads + h) * r.queries;
        uint i0 = begin;
        [[dont_unroll]] do {
            // The probabilities; negative those that dropout removes. Then ds.
            vec4 p[4] = {vec4(0.0), vec4(0.0), vec4(0.0), vec4(0.0)};
            multiply(p, keys, rows_from(queries, r.q_t, i0, r.queries, kTypeQ), D);
            vec4 slopes[4]; // of capped scores
            vec4 share; // of the gradient of a row with nothing allowed, by query; otherwise 0
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                const uint column = i0 + across * 4 + i;
                const uint ii = min(column, r.queries - 1);
                const vec2 lse = given_pair(r.lse, (rows + ii) * 2);
                share[i] = 0.0;
                if (shares_empty && column < r.queries && lse.y == kEmptyRow)
                    share[i] = 1.0 / float(r.keys);
                const uint mask = mask_of(r, b, h, ii, first + down * 4);
                vec4 kept = vec4(1.0);
                if (has(kDropout)) kept = keep_four(r, key, b, h, ii, first + down * 4);
                [[unroll]] for (uint j = 0; j < 4; ++j) {
                    const uint jj = min(first + down * 4 + j, r.keys - 1);
                    const bool allowed = is_allowed(r, b, ii, jj, mask >> j) && column < r.queries && lse.y != kEmptyRow;
                    const float s_capped = capped(r, p[i][j] * r.scale);
                    if (has(kSoftcap)) slopes[i][j] = slope_of_capped(r, s_capped);
                    const float score = s_capped + extra_score(r, b, h, ii, jj);
                    const float probability = allowed ? exp_of_score(score - lse.x - lse.y) : 0.0;
                    p[i][j] = kept[j] == 0.0 ? -probability : probability;
                }
            }
            if (kHasDv) {
                APPLY(dv, DV, kColumnsV, kRowsV, kPartsV, kTakeV, used(r, slice_of(p, hekla_slice), share[hekla_slice]),
                      rows_from(gradients, r.dy_t, i0, r.queries, kTypeDy))
            }
            if (kHasDk) {
                vec4 dp[4] = {vec4(0.0), vec4(0.0), vec4(0.0), vec4(0.0)};
                multiply(dp, values, rows_from(gradients, r.dy_t, i0, r.queries, kTypeDy), DV);
                [[unroll]] for (uint i = 0; i < 4; ++i) {
                    const float delta = given_float(r.delta, rows + min(i0 + across * 4 + i, r.queries - 1));
                    const vec4 ds = has(kDropout) ? max(p[i], 0.0) * r.dropout_factor * dp[i] - abs(p[i]) * delta
                                                  : p[i] * (dp[i] - delta);
                    // Where the probability is 0, so is the gradient, whatever dp is.
                    [[unroll]] for (uint j = 0; j < 4; ++j) p[i][j] = p[i][j] == 0.0 ? 0.0 : ds[j];
                }
                if (has(kKeyDistanceGradient)) add_to_buckets(r, p, b, h, first, i0);
                if (has(kSoftcap)) {
                    [[unroll]] for (uint i = 0; i < 4; ++i) p[i] *= slopes[i];
                }
                APPLY(dk, D, kColumnsD, kRowsD, kPartsD, kTakeD, slice_of(p, hekla_slice),
                      rows_from(queries, r.q_t, i0, r.queries, kTypeQ))
            }
            i0 += kOther;
        } while (i0 < end);
    } while (++hh < shared_by);

    const Rows to_k = rows_from(head_at(r.dk, b, r.dk_b, g, r.dk_h, kTypeDk), r.dk_t, first, r.keys, kTypeDk);
    const vec4 scales = vec4(r.scale);
    if (kHasDk) STORE_SUMS(dk, D, kColumnsD, kRowsD, kPartsD, to_k, scales)
    const Rows to_v = rows_from(head_at(r.dv, b, r.dv_b, g, r.dv_h, kTypeDv), r.dv_t, first, r.keys, kTypeDv);
    const vec4 ones = vec4(1.0);
    if (kHasDv) STORE_SUMS(dv, DV, kColumnsV, kRowsV, kPartsV, to_v, ones)
}
