#version 450
#extension GL_GOOGLE_include_directive : require
//! no-optimizer
//! needs GL_KHR_cooperative_matrix
//! variant f16 STORAGE16
//! needs GL_EXT_bfloat16
//! variant bf16 STORAGE16 BF16
//! spirv-1.6
//! needs GL_NV_cooperative_matrix2
//! variant f16_elements STORAGE16 ELEMENTS
//! needs GL_NV_cooperative_matrix2 GL_EXT_bfloat16
//! variant bf16_elements STORAGE16 BF16 ELEMENTS
// What gradient_query.comp computes, by matrix units: dq, delta and the gradient of bias.
#include "attention/matrix.glsl"

#ifdef ELEMENTS
// The gradient of the score of key element_other + down + j and query element_own + across + i, which it stores as that of
// the bias if that is wanted.
float gradient_at(uint down, uint across, float s, float dp, float most, float logarithm, float delta, uint j, uint i,
                  bool whole) {
    const uint column = element_other + j + down;
    const uint row = element_own + i + across;
    const uint at_key = min(column, element_record.keys - 1);
    const uint at_query = min(row, element_record.queries - 1);
    // A block has the keys of one word.
    const uint mask =
        has(kMask) ? mask_of(element_record, element_b, element_h, at_query, element_other) >> (j + down) : ~0u;
    const bool allowed = whole || is_allowed(element_record, element_b, at_query, at_key, mask) &&
                                      column < element_record.keys && logarithm != kEmptyRow;
    const float s_capped = capped(element_record, s * element_record.scale);
    const float score = s_capped + extra_score(element_record, element_b, element_h, at_query, at_key);
    const float p = allowed ? exponential(score - most - logarithm) : 0.0;
    const float kept = has(kDropout) ? keep_of_key(i + across, j + down) : 1.0;
    // The probability is 0 where the pair is not allowed, whatever dp is.
    const float ds = p == 0.0 ? 0.0 : p * (dp * kept - delta);
    if (has(kBiasGradient)) {
        const uint64_t at =
            uint64_t((element_b * element_record.heads + element_h) * element_record.queries + at_query);
        if (row < element_record.queries && column < element_record.keys)
            store_float(element_record.bias_gradient, at * element_record.keys + at_key, ds, kF32);
    }
    return has(kSoftcap) ? ds * slope_of_capped(element_record, s_capped) : ds;
}
float gradient_of(const in uint32_t down, const in uint32_t across, const in float s, const in float dp,
                  const in float most, const in float logarithm, const in float delta, const in uint32_t j,
                  const in uint32_t i) {
    return gradient_at(down, across, s, dp, most, logarithm, delta, j, i, false);
}
float gradient_of_whole(const in uint32_t down, const in uint32_t across, const in float s, const in float dp,
                        const in float most, const in float logarithm, const in float delta, const in uint32_t j,
                        const in uint32_t i) {
    return gradient_at(down, across, s, dp, most, logarithm, delta, j, i, true);
}
#else
// The gradients of a lane's share of scores, in s. whole: every pair is allowed.
#define GRADIENTS_OF_SCORES(whole)                                                                                     \
    {                                                                                                                  \
        const uint mask = whole ? ~0u : mask_of(r, b, h, i, j0 + lane_column);                                         \
        [[unroll]] for (uint n = 0; n < SHARE; n += 4) {                                                               \
            vec4 kept = vec4(1.0);                                                                                     \
            if (has(kDropout)) kept = keep_four(r, key, b, h, i, j0 + lane_column + n);                                \
            [[unroll]] for (uint c = 0; c < 4; ++c) {                                                                  \
                const uint column = j0 + lane_column + n + c;                                                          \
                const uint j = whole ? column : min(column, r.keys - 1);                                               \
                const bool allowed = whole || is_allowed(r, b, i, j, mask >> (n + c)) && column < r.keys &&            \
                                                  lse.y != kEmptyRow;                                                  \
                const float s_capped = capped(r, s[n + c] * r.scale);                                                  \
                const float score = s_capped + extra_score(r, b, h, i, j);                                             \
                const float p = allowed ? exponential(score - lse.x - lse.y) : 0.0;                                    \
                /* The probability is 0 where the pair is not allowed, whatever dp is. */                              \
                s[n + c] = p == 0.0 ? 0.0 : p * (dp[n + c] * kept[c] - delta);                                         \
                if (has(kBiasGradient)) {                                                                              \
                    if (row < r.queries && column < r.keys)                                                            \
                        store_float(r.bias_gradient, at * r.keys + j, s[n + c], kF32);                                 \
                }                                                                                                      \
                if (has(kSoftcap)) s[n + c] *= slope_of_capped(r, s_capped);                                           \
            }                                                                                                          \
        }                                                                                                              \
    }
#endif

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    // Causal rows are dispatched longest first.
    const uint block = has(kCausal) ? r.blocks - 1 - group % r.blocks : group % r.blocks;
    const uint h = (group / r.blocks) % r.heads;
    const uint b = group / r.blocks / r.heads;
    const uint g = h / (r.heads / r.key_heads);
    const uint first_of_group = block * kOwn;
    const uint first = min(first_of_group + subgroup * ROWS, r.queries - 1); // of the subgroup
    const uint row = first_of_group + subgroup * ROWS + lane_row;
    const uint i = min(row, r.queries - 1);
    const uint64_t at = uint64_t((b * r.heads + h) * r.queries + i);
    const uint64_t keys = head_at(r.k, b, r.k_b, g, r.k_h, kTypeK);
    const uint64_t values = head_at(r.v, b, r.v_b, g, r.v_h, kTypeV);
    const uint64_t gradients = head_at(r.dy, b, r.dy_b, h, r.dy_h, kTypeDy);
    const uvec4 key = random_key(r);

    // delta = dy . y: columns by the lanes of a row.
    float delta = 0.0;
    {
        const uint64_t dy_row = row_at(gradients, i, r.dy_t, kTypeDy);
        const uint64_t y_row = row_at(head_at(r.y, b, r.y_b, h, r.y_h, kTypeY), i, r.y_t, kTypeY);
        for (uint d = lane / ROWS * 4; d < DV; d += kLanesPerRow * 4) {
            const vec4 x = unpack_four(kType, GivenHalfQuads(dy_row + uint64_t(d) * 2ul).v);
            vec4 y;
            if (kTypeY == kF32) y = GivenQuads(y_row + uint64_t(d) * 4ul).v;
            else y = unpack_four(kTypeY, GivenHalfQuads(y_row + uint64_t(d) * 2ul).v);
            delta = fma(x.w, y.w, fma(x.z, y.z, fma(x.y, y.y, fma(x.x, y.x, delta))));
        }
        delta = sum_of_row(delta);
        if (lane < ROWS && row < r.queries) store_float(r.delta, at, delta, kF32);
    }
    const vec2 lse = given_pair(r.lse, at * 2);

    Own q[kDown * kStepsD], dy[kDown * kStepsV];
    LOAD_OWN(q, rows_from(head_at(r.q, b, r.q_b, h, r.q_h, kTypeQ), r.q_t, first, r.queries, kTypeQ), D, kStepsD)
    LOAD_OWN(dy, rows_from(gradients, r.dy_t, first, r.queries, kTypeDy), DV, kStepsV)
    Sums dq[kDown * kAcrossD];
    [[unroll]] for (uint n = 0; n < kDown * kAcrossD; ++n) dq[n] = Sums(0.0);

#ifdef ELEMENTS
    element_record = r;
    element_b = b;
    element_h = h;
    element_own = first;
    Sums mosts[kDown], logarithms[kDown], deltas[kDown];
    GIVE_NUMBER(mosts, lse.x)
    GIVE_NUMBER(logarithms, lse.y)
    GIVE_NUMBER(deltas, delta)
#endif

    uint j0 = 0;
    uint end = r.keys;
    const bool ends_at_diagonal = has(kCausal) && !has(kPositions | kPrefix | kBiasGradient);
    if (ends_at_diagonal) end = clamp(first_of_group + kOwn, 1, r.keys);
    if (has(kWindowAfter) && !has(kPositions | kBiasGradient)) end = end_of_window(r, first_of_group + kOwn, end);
    if (has(kWindow) && !has(kPositions | kBiasGradient)) {
        j0 = uint(max(int(first_of_group) - r.window + 1, 0));
        j0 = min(j0, r.keys - 1) / OTHER * OTHER;
    }
    uvec4 next_keys[UNITS(kWidthD)], next_values[UNITS(kWidthV)];
    FETCH(next_keys, rows_from(keys, r.k_t, j0, r.keys, kTypeK), D, kWidthD)
    FETCH(next_values, rows_from(values, r.v_t, j0, r.keys, kTypeV), DV, kWidthV)
    [[dont_unroll]] do {
        barrier(); // the tiles of the block before have been read
        PLACE(tile_d, next_keys, kWidthD, kStrideD)
        PLACE(tile_v, next_values, kWidthV, kStrideV)
        barrier();
        const uint next = min(j0 + OTHER, r.keys - 1);
        FETCH(next_keys, rows_from(keys, r.k_t, next, r.keys, kTypeK), D, kWidthD)
        FETCH(next_values, rows_from(values, r.v_t, next, r.keys, kTypeV), DV, kWidthV)
        // Nothing of a block past the diagonal is allowed.
        if (!ends_at_diagonal || j0 < first + ROWS) {
#ifdef ELEMENTS
            Sums s[kBlocks * kDown], dp[kBlocks * kDown];
            MULTIPLY(s, q, tile_d, kStrideD, kStepsD)
            MULTIPLY(dp, dy, tile_v, kStrideV, kStepsV)
            element_other = j0;
            if (has(kDropout)) keep_of_keys(r, key, b, h, first, j0);
            const bool whole = j0 + OTHER <= r.keys && all_allowed(r, first, ROWS, j0, OTHER);
            [[unroll]] for (uint n = 0; n < kDown; ++n)
                [[unroll]] for (uint t = 0; t < kBlocks; ++t) {
                    if (whole)
                        coopMatPerElementNV(s[t * kDown + n], s[t * kDown + n], gradient_of_whole, dp[t * kDown + n],
                                            mosts[n], logarithms[n], deltas[n], t * MM, n * MN);
                    else
                        coopMatPerElementNV(s[t * kDown + n], s[t * kDown + n], gradient_of, dp[t * kDown + n],
                                            mosts[n], logarithms[n], deltas[n], t * MM, n * MN);
                }
            ACCUMULATE(dq, s, tile_d, kStrideD, kAcrossD)
            if (has(kDropout)) wait_for_subgroup(); // what was kept has been read
#else
            float s[SHARE], dp[SHARE];
            MULTIPLY(q, tile_d, kStrideD, kStepsD)
            TAKE_SHARE(s)
            MULTIPLY(dy, tile_v, kStrideV, kStepsV)
            TAKE_SHARE(dp)
            if (j0 + OTHER <= r.keys && all_allowed(r, first, ROWS, j0, OTHER)) GRADIENTS_OF_SCORES(true)
            else GRADIENTS_OF_SCORES(false)
            GIVE_SHARE(s)
            ACCUMULATE(dq, tile_d, kStrideD, kAcrossD)
#endif
        }
        j0 += OTHER;
    } while (j0 < end);

    const uint64_t to = row_at(head_at(r.dq, b, r.dq_b, h, r.dq_h, kTypeDq), i, r.dq_t, kTypeDq);
    STORE_SUMS(dq, kAcrossD, to, kTypeDq, D, row < r.queries, r.scale)
}
