#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant 16 STORAGE16
// dq, one lane per query; delta = dy . y for gradient_key; and the gradients of the scores' other terms: bias
// [B, H, Tq, Tk], query_distance [B, H, Tq, P] (zero before; one lane writes each row), query_class [B, H, Tq, 2].
#include "attention/options.glsl"

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const uint first = (group % r.blocks) * S;
    const uint h = (group / r.blocks) % r.heads;
    const uint b = group / r.blocks / r.heads;
    const uint g = h / (r.heads / r.key_heads);
    const uint row = first + gl_SubgroupInvocationID;
    const bool in_range = row < r.queries;
    const uint i = min(row, r.queries - 1);
    const uint64_t keys = head_at(r.k, b, r.k_b, g, r.k_h, kTypeK);
    const uint64_t values = head_at(r.v, b, r.v_b, g, r.v_h, kTypeV);
    const uint64_t at = (uint64_t(b) * r.heads + h) * r.queries + i;
    const uvec4 key = random_key(r);

    float q[D];
    LOAD_ROW(q, 0, row_at(head_at(r.q, b, r.q_b, h, r.q_h, kTypeQ), i, r.q_t, kTypeQ), D, r.scale, kTypeQ)
    float dy[DV];
    LOAD_ROW(dy, 0, row_at(head_at(r.dy, b, r.dy_b, h, r.dy_h, kTypeDy), i, r.dy_t, kTypeDy), DV, 1.0, kTypeDy)
    const vec2 lse = load_pair(r.lse, at * 2, kF32);
    float delta = 0.0;
    {
        float y[DV];
        LOAD_ROW(y, 0, row_at(head_at(r.y, b, r.y_b, h, r.y_h, kTypeY), i, r.y_t, kTypeY), DV, 1.0, kTypeY)
        [[unroll]] for (uint d = 0; d < DV; ++d) delta = fma(dy[d], y[d], delta);
    }
    if (in_range) store_float(r.delta, at, delta, kF32);
    float dq[D];
    [[unroll]] for (uint d = 0; d < D; ++d) dq[d] = 0.0;
    float same = 0.0, crossing = 0.0;

    uint j0 = 0;
    uint end = r.keys;
    if (has(kCausal) && !has(kPositions | kPrefix | kBiasGradient)) end = clamp(first + S, 1, r.keys);
    if (has(kWindowAfter) && !has(kPositions | kBiasGradient)) end = end_of_window(r, first + S, end);
    if (has(kWindow) && !has(kPositions | kBiasGradient)) {
        j0 = uint(max(int(first) - r.window + 1, 0));
        j0 = min(j0, r.keys - 1) / BLOCK * BLOCK;
    }
    const bool skips = has(kGroups) && !has(kBiasGradient); // which is stored for all pairs
    const uint64_t groups = r.k_group + uint64_t(b) * r.keys * 4ul;
    vec2 own = vec2(0.0);
    if (skips) {
        const float of_row = group_at(r.q_group, b * r.queries + i);
        own = range_of_groups(of_row, of_row);
        j0 = next_block(groups, j0, end, r.keys, own);
    }
    do {
        LOAD_SHARES(k_shares, keys, r.k_t, j0, r.keys, D, kTypeK)
        LOAD_SHARES(v_shares, values, r.v_t, j0, r.keys, DV, kTypeV)
        const uint mask = mask_of(r, b, h, i, j0);
        float ds[BLOCK], scores[BLOCK], dps[BLOCK];
        [[unroll]] for (uint jj = 0; jj < BLOCK; ++jj) scores[jj] = dps[jj] = 0.0;
        [[unroll]] for (uint d = 0; d < D; ++d) {
            [[unroll]] for (uint jj = 0; jj < BLOCK; ++jj)
                scores[jj] = fma(q[d], SHARED(k_shares, jj, d, D, kTypeK), scores[jj]);
        }
        [[unroll]] for (uint d = 0; d < DV; ++d) {
            [[unroll]] for (uint jj = 0; jj < BLOCK; ++jj)
                dps[jj] = fma(dy[d], SHARED(v_shares, jj, d, DV, kTypeV), dps[jj]);
        }
        [[unroll]] for (uint jj = 0; jj < BLOCK; ++jj) {
            const uint j = min(j0 + jj, r.keys - 1);
            const float s = capped(r, scores[jj]);
            float dp = dps[jj];
            if (has(kDropout)) dp *= keep(r, key, b, h, i, j);
            const bool allowed = is_allowed(r, b, i, j, mask >> jj) && j0 + jj < r.keys && lse.y != kEmptyRow;
            const float p = allowed ? exp_(s + extra_score(r, b, h, i, j) - lse.x - lse.y) : 0.0;
            ds[jj] = allowed ? p * (dp - delta) : 0.0;
            const bool pair_in_range = in_range && j0 + jj < r.keys;
            if (has(kBiasGradient)) {
                if (pair_in_range) store_float(r.bias_gradient, at * r.keys + j, ds[jj], kF32);
            }
            if (has(kQueryDistanceGradient)) {
                const uint64_t at_bucket =
                    at * r.buckets + bucket(r, query_position(r, b, i) - key_position(r, b, j));
                const float before = load_float(r.query_distance_gradient, at_bucket, kF32);
                if (pair_in_range) store_float(r.query_distance_gradient, at_bucket, before + ds[jj], kF32);
            }
            if (has(kQueryClassGradient)) {
                const bool other = crosses(r, b, i, j);
                crossing += other ? ds[jj] : 0.0;
                same += other ? 0.0 : ds[jj];
            }
            if (has(kSoftcap)) ds[jj] *= slope_of_capped(r, s);
        }
        FORGET_SHARES()
        [[unroll]] for (uint d = 0; d < D; ++d) {
            float sum = dq[d];
            [[unroll]] for (uint jj = 0; jj < BLOCK; ++jj) sum = fma(ds[jj], SHARED(k_shares, jj, d, D, kTypeK), sum);
            dq[d] = sum;
        }
        j0 += BLOCK;
        if (skips) j0 = next_block(groups, j0, end, r.keys, own);
    } while (j0 < end);

    if (in_range) {
        const uint64_t to = row_at(head_at(r.dq, b, r.dq_b, h, r.dq_h, kTypeDq), i, r.dq_t, kTypeDq);
        STORE_ROW(dq, 0, to, D, r.scale, kTypeDq)
        if (has(kQueryClassGradient)) {
            store_float(r.query_class_gradient, at * 2, same, kF32);
            store_float(r.query_class_gradient, at * 2 + 1, crossing, kF32);
        }
    }
}
