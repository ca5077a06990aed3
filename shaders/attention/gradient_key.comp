#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant 16 STORAGE16
// dk and dv, one lane per key. The query heads of a group are processed one after the other, so that no two lanes add
// to one element. Also the gradient of key_distance [B, H, Tk, P'], which must be zero before; one lane writes each
// row.
#include "attention/options.glsl"

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const uint first = (group % r.blocks) * S;
    const uint g = (group / r.blocks) % r.key_heads;
    const uint b = group / r.blocks / r.key_heads;
    const uint shared_by = r.heads / r.key_heads;
    const uint row = first + gl_SubgroupInvocationID;
    const bool in_range = row < r.keys;
    const uint j = min(row, r.keys - 1);
    const uvec4 key = random_key(r);

    float k[D];
    LOAD_ROW(k, 0, row_at(head_at(r.k, b, r.k_b, g, r.k_h, kTypeK), j, r.k_t, kTypeK), D, r.scale, kTypeK)
    float v[DV];
    LOAD_ROW(v, 0, row_at(head_at(r.v, b, r.v_b, g, r.v_h, kTypeV), j, r.v_t, kTypeV), DV, 1.0, kTypeV)
    float dk[D];
    [[unroll]] for (uint d = 0; d < D; ++d) dk[d] = 0.0;
    float dv[DV];
    [[unroll]] for (uint d = 0; d < DV; ++d) dv[d] = 0.0;

    // Rows with nothing allowed spread their gradient over all keys, so causal rows can begin at the diagonal only if
    // no other option can make them empty, or empty rows have no gradient.
    const bool only_near = has(kZeroEmpty) && !has(kPositions | kPrefix);
    uint begin = 0;
    uint end = r.queries;
    const uint all = kCausal | kDistanceBias | kQueryDistance | kKeyDistance | kQueryClass | kBias | kDropout |
                     kKeyDistanceGradient;
    if (has(kCausal) && (only_near || (OPTIONS & 0xFFFFu & ~all) == 0))
        begin = min(first, r.queries - 1) / BLOCK * BLOCK;
    if (has(kWindow) && only_near) end = clamp(first + S - 1 + min(uint(r.window), r.queries), 1, r.queries);
    const bool skips = has(kGroups) && has(kZeroEmpty);
    const uint64_t groups = r.q_group + uint64_t(b) * r.queries * 4ul;
    vec2 own = vec2(0.0);
    if (skips) {
        const float of_row = group_at(r.k_group, b * r.keys + j);
        own = range_of_groups(of_row, of_row);
        begin = next_block(groups, begin, end, r.queries, own);
    }
    const float share_of_empty = has(kZeroEmpty) ? 0.0 : 1.0 / float(r.keys);

    uint hh = 0;
    do {
        const uint h = g * shared_by + hh;
        const uint64_t queries = head_at(r.q, b, r.q_b, h, r.q_h, kTypeQ);
        const uint64_t gradients = head_at(r.dy, b, r.dy_b, h, r.dy_h, kTypeDy);
        const uint64_t rows = (uint64_t(b) * r.heads + h) * r.queries;
        uint i0 = begin;
        do {
            LOAD_SHARES(q_shares, queries, r.q_t, i0, r.queries, D, kTypeQ)
            LOAD_SHARES(dy_shares, gradients, r.dy_t, i0, r.queries, DV, kTypeDy)
            const uint64_t mine = rows + min(i0 + min(gl_SubgroupInvocationID, BLOCK - 1), r.queries - 1);
            const vec2 lses = load_pair(r.lse, mine * 2, kF32);
            const float deltas = load_float(r.delta, mine, kF32);
            float used[BLOCK], ds[BLOCK], scores[BLOCK], dps[BLOCK];
            [[unroll]] for (uint ii = 0; ii < BLOCK; ++ii) scores[ii] = dps[ii] = 0.0;
            [[unroll]] for (uint d = 0; d < D; ++d) {
                [[unroll]] for (uint ii = 0; ii < BLOCK; ++ii)
                    scores[ii] = fma(k[d], SHARED(q_shares, ii, d, D, kTypeQ), scores[ii]);
            }
            [[unroll]] for (uint d = 0; d < DV; ++d) {
                [[unroll]] for (uint ii = 0; ii < BLOCK; ++ii)
                    dps[ii] = fma(v[d], SHARED(dy_shares, ii, d, DV, kTypeDy), dps[ii]);
            }
            [[unroll]] for (uint ii = 0; ii < BLOCK; ++ii) {
                const uint i = min(i0 + ii, r.queries - 1);
                const vec2 lse = vec2(subgroupBroadcast(lses.x, ii), subgroupBroadcast(lses.y, ii));
                const float delta = subgroupBroadcast(deltas, ii);
                const float s = capped(r, scores[ii]), dp = dps[ii];
                const bool query_in_range = i0 + ii < r.queries;
                const bool allowed = is_allowed(r, b, i, j, mask_of(r, b, h, i, j)) && query_in_range && lse.y != kEmptyRow;
                const float p = allowed ? exp_(s + extra_score(r, b, h, i, j) - lse.x - lse.y) : 0.0;
                float kept = 1.0;
                if (has(kDropout)) kept = keep(r, key, b, h, i, j);
                used[ii] = p * kept;
                if (query_in_range && lse.y == kEmptyRow) used[ii] = share_of_empty;
                ds[ii] = allowed ? p * (dp * kept - delta) : 0.0;
                if (has(kKeyDistanceGradient)) {
                    const uint64_t at_bucket =
                        ((uint64_t(b) * r.heads + h) * r.keys + j) * r.key_buckets +
                        key_bucket(r, query_position(r, b, i) - key_position(r, b, j));
                    const float before = load_float(r.key_distance_gradient, at_bucket, kF32);
                    if (in_range) store_float(r.key_distance_gradient, at_bucket, before + ds[ii], kF32);
                }
                if (has(kSoftcap)) ds[ii] *= slope_of_capped(r, s);
            }
            FORGET_SHARES()
            [[unroll]] for (uint d = 0; d < D; ++d) {
                float sum = dk[d];
                [[unroll]] for (uint ii = 0; ii < BLOCK; ++ii) sum = fma(ds[ii], SHARED(q_shares, ii, d, D, kTypeQ), sum);
                dk[d] = sum;
            }
            [[unroll]] for (uint d = 0; d < DV; ++d) {
                float sum = dv[d];
                [[unroll]] for (uint ii = 0; ii < BLOCK; ++ii) sum = fma(used[ii], SHARED(dy_shares, ii, d, DV, kTypeDy), sum);
                dv[d] = sum;
            }
            i0 += BLOCK;
            if (skips) i0 = next_block(groups, i0, end, r.queries, own);
        } while (i0 < end);
    } while (++hh < shared_by);

    if (in_range) {
        const uint64_t to_k = row_at(head_at(r.dk, b, r.dk_b, g, r.dk_h, kTypeDk), j, r.dk_t, kTypeDk);
        STORE_ROW(dk, 0, to_k, D, r.scale, kTypeDk)
        const uint64_t to_v = row_at(head_at(r.dv, b, r.dv_b, g, r.dv_h, kTypeDv), j, r.dv_t, kTypeDv);
        STORE_ROW(dv, 0, to_v, DV, 1.0, kTypeDv)
    }
}
