#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant 16 STORAGE16
// Attention, one lane per query; keys and values come in blocks that the lanes load together. An online softmax, so that no
// T x T matrix is stored (Milakov and Gimelshein 2018; Dao et al. 2022, algorithm 1: row_max is m, row_sum is l, rescale is
// exp(m - m_new)). Stores the log-sum-exp of every row, in two parts, for the backward kernels.
#include "attention/options.glsl"

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const uint first = (group % r.blocks) * S;
    const uint h = (group / r.blocks) % r.heads;
    const uint b = group / r.blocks / r.heads;
    const uint g = h / (r.heads / r.key_heads);
    const uint row = first + gl_SubgroupInvocationID;
    const uint i = min(row, r.queries - 1);
    const uint64_t keys = head_at(r.k, b, r.k_b, g, r.k_h, kTypeK);
    const uint64_t values = head_at(r.v, b, r.v_b, g, r.v_h, kTypeV);
    const uvec4 key = random_key(r);

    float q[D];
    LOAD_ROW(q, row_at(head_at(r.q, b, r.q_b, h, r.q_h, kTypeQ), i, r.q_t, kTypeQ), D, r.scale, kTypeQ)
    float y[DV];
    [[unroll]] for (uint d = 0; d < DV; ++d) y[d] = 0.0;
    float row_max = -kInfinity;
    float row_sum = 0.0;

    // With default positions, causal rows end at the diagonal and a window begins there.
    uint j0 = 0;
    uint end = r.keys;
    if (has(kCausal) && !has(kPositions | kPrefix)) end = clamp(first + S, 1, r.keys);
    if (has(kWindow) && !has(kPositions)) {
        j0 = uint(max(int(first) - r.window + 1, 0));
        j0 = min(j0, r.keys - 1) / BLOCK * BLOCK;
    }
    do {
        float s[BLOCK];
        LOAD_SHARES(k_shares, keys, r.k_t, j0, r.keys, D, kTypeK)
        const uint mask = mask_of(r, b, h, i, j0);
        float new_max = row_max;
        [[unroll]] for (uint jj = 0; jj < BLOCK; ++jj) s[jj] = 0.0;
        [[unroll]] for (uint d = 0; d < D; ++d) {
            [[unroll]] for (uint jj = 0; jj < BLOCK; ++jj) s[jj] = fma(q[d], SHARED(k_shares, jj, d, D, kTypeK), s[jj]);
        }
        [[unroll]] for (uint jj = 0; jj < BLOCK; ++jj) {
            const uint j = min(j0 + jj, r.keys - 1);
            s[jj] += extra_score(r, b, h, i, j);
            if (!(is_allowed(r, b, i, j, mask >> jj) && j0 + jj < r.keys)) s[jj] = -kInfinity;
            new_max = max(new_max, s[jj]);
        }
        const float base = new_max == -kInfinity ? 0.0 : new_max;
        const float rescale = exp_(row_max - base);
        row_max = new_max;
        row_sum *= rescale;
        float p[BLOCK];
        [[unroll]] for (uint jj = 0; jj < BLOCK; ++jj) {
            p[jj] = exp_(s[jj] - base);
            row_sum += p[jj];
        }
        if (has(kDropout)) {
            [[unroll]] for (uint jj = 0; jj < BLOCK; ++jj) p[jj] *= keep(r, key, b, h, i, j0 + jj);
        }
        LOAD_SHARES(v_shares, values, r.v_t, j0, r.keys, DV, kTypeV)
        [[unroll]] for (uint d = 0; d < DV; ++d) {
            float sum = y[d] * rescale;
            [[unroll]] for (uint jj = 0; jj < BLOCK; ++jj) sum = fma(p[jj], SHARED(v_shares, jj, d, DV, kTypeV), sum);
            y[d] = sum;
        }
        j0 += BLOCK;
    } while (j0 < end);

    const bool empty = row_sum == 0.0;
    if (!has(kZeroEmpty) && lanes_max(empty ? 1.0 : 0.0) > 0.0) {
        // Rows without an allowed key become the mean of all values.
        uint j = 0;
        do {
            LOAD_SHARES(v_shares, values, r.v_t, j, r.keys, DV, kTypeV)
            [[unroll]] for (uint jj = 0; jj < BLOCK; ++jj) {
                const float weight = empty && j + jj < r.keys ? 1.0 : 0.0;
                [[unroll]] for (uint d = 0; d < DV; ++d) y[d] = fma(weight, SHARED(v_shares, jj, d, DV, kTypeV), y[d]);
            }
            j += BLOCK;
        } while (j < r.keys);
    }
    const float factor = empty ? 1.0 / float(r.keys) : 1.0 / row_sum;
    if (row < r.queries) {
        const uint64_t to = row_at(head_at(r.y, b, r.y_b, h, r.y_h, kTypeY), i, r.y_t, kTypeY);
        STORE_ROW(y, to, DV, factor, kTypeY)
        const uint64_t at = ((uint64_t(b) * r.heads + h) * r.queries + i) * 2;
        store_pair(r.lse, at, empty ? vec2(0.0, kEmptyRow) : vec2(row_max, log_(row_sum)));
    }
}
