#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant 16 STORAGE16
//! variant pairs R=2
// Attention, one lane per query; keys and values come in blocks that the lanes load together. An online softmax, so that no
// T x T matrix is stored (Milakov and Gimelshein 2018; Dao et al. 2022, algorithm 1: row_max is m, row_sum is l, rescale is
// exp(m - m_new)). Stores the log-sum-exp of every row, in two parts, for the backward kernels.
#include "attention/options.glsl"

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const uint first = (group % r.blocks) * S * R;
    const uint h = (group / r.blocks) % r.heads;
    const uint b = group / r.blocks / r.heads;
    const uint g = h / (r.heads / r.key_heads);
    const uint row = first + gl_SubgroupInvocationID; // and the rows S, ... after it
    const uint64_t keys = head_at(r.k, b, r.k_b, g, r.k_h, kTypeK);
    const uint64_t values = head_at(r.v, b, r.v_b, g, r.v_h, kTypeV);
    const uvec4 key = random_key(r);

    uint i[R];
    float q[R * D];
    float y[R * DV];
    float row_max[R], row_sum[R];
    [[unroll]] for (uint c = 0; c < R; ++c) {
        i[c] = min(row + c * S, r.queries - 1);
        LOAD_ROW(q, c * D, row_at(head_at(r.q, b, r.q_b, h, r.q_h, kTypeQ), i[c], r.q_t, kTypeQ), D, r.scale, kTypeQ)
        [[unroll]] for (uint d = 0; d < DV; ++d) y[c * DV + d] = 0.0;
        row_max[c] = -kInfinity;
        row_sum[c] = 0.0;
    }

    // With default positions, causal rows end at the diagonal and a window begins there.
    uint j0 = 0;
    uint end = r.keys;
    if (has(kCausal) && !has(kPositions | kPrefix)) end = clamp(first + S * R, 1, r.keys);
    if (has(kWindowAfter) && !has(kPositions)) end = end_of_window(r, first + S * R, end);
    if (has(kWindow) && !has(kPositions)) {
        j0 = uint(max(int(first) - r.window + 1, 0));
        j0 = min(j0, r.keys - 1) / BLOCK * BLOCK;
    }
    const uint64_t groups = r.k_group + uint64_t(b) * r.keys * 4ul;
    vec2 own = vec2(0.0);
    if (has(kGroups)) {
        float least = kInfinity, greatest = -kInfinity;
        [[unroll]] for (uint c = 0; c < R; ++c) {
            const float of_row = group_at(r.q_group, b * r.queries + i[c]);
            least = min(least, of_row);
            greatest = max(greatest, of_row);
        }
        own = range_of_groups(least, greatest);
        j0 = next_block(groups, j0, end, r.keys, own);
    }
    do {
        float s[R * BLOCK], p[R * BLOCK], rescale[R];
        LOAD_SHARES(k_shares, keys, r.k_t, j0, r.keys, D, kTypeK)
        [[unroll]] for (uint e = 0; e < R * BLOCK; ++e) s[e] = 0.0;
        [[unroll]] for (uint d = 0; d < D; ++d) {
            [[unroll]] for (uint jj = 0; jj < BLOCK; ++jj) {
                const float x = SHARED(k_shares, jj, d, D, kTypeK);
                [[unroll]] for (uint c = 0; c < R; ++c) s[c * BLOCK + jj] = fma(q[c * D + d], x, s[c * BLOCK + jj]);
            }
        }
        [[unroll]] for (uint c = 0; c < R; ++c) {
            const uint mask = mask_of(r, b, h, i[c], j0);
            float new_max = row_max[c];
            [[unroll]] for (uint jj = 0; jj < BLOCK; ++jj) {
                const uint j = min(j0 + jj, r.keys - 1), e = c * BLOCK + jj;
                if (has(kSoftcap)) s[e] = capped(r, s[e]);
                s[e] += extra_score(r, b, h, i[c], j);
                if (!(is_allowed(r, b, i[c], j, mask >> jj) && j0 + jj < r.keys)) s[e] = -kInfinity;
                new_max = max(new_max, s[e]);
            }
            const float base = new_max == -kInfinity ? 0.0 : new_max;
            rescale[c] = exp_(row_max[c] - base);
            row_max[c] = new_max;
            row_sum[c] *= rescale[c];
            [[unroll]] for (uint jj = 0; jj < BLOCK; ++jj) {
                p[c * BLOCK + jj] = exp_(s[c * BLOCK + jj] - base);
                row_sum[c] += p[c * BLOCK + jj];
            }
            if (has(kDropout)) {
                [[unroll]] for (uint jj = 0; jj < BLOCK; ++jj) p[c * BLOCK + jj] *= keep(r, key, b, h, i[c], j0 + jj);
            }
        }
        LOAD_SHARES(v_shares, values, r.v_t, j0, r.keys, DV, kTypeV)
        [[unroll]] for (uint d = 0; d < DV; ++d) {
            float sum[R];
            [[unroll]] for (uint c = 0; c < R; ++c) sum[c] = y[c * DV + d] * rescale[c];
            [[unroll]] for (uint jj = 0; jj < BLOCK; ++jj) {
                const float x = SHARED(v_shares, jj, d, DV, kTypeV);
                [[unroll]] for (uint c = 0; c < R; ++c) sum[c] = fma(p[c * BLOCK + jj], x, sum[c]);
            }
            [[unroll]] for (uint c = 0; c < R; ++c) y[c * DV + d] = sum[c];
        }
        j0 += BLOCK;
        if (has(kGroups)) j0 = next_block(groups, j0, end, r.keys, own);
    } while (j0 < end);

    if (has(kSinks)) {
        const float sink = load_float(r.sinks, uint64_t(h), kF32);
        [[unroll]] for (uint c = 0; c < R; ++c) {
            const float top = max(row_max[c], sink);
            const float rescale = exp_(row_max[c] - top);
            row_sum[c] = row_sum[c] * rescale + exp_(sink - top);
            row_max[c] = top;
            [[unroll]] for (uint d = 0; d < DV; ++d) y[c * DV + d] *= rescale;
        }
    }
    bool empty[R];
    bool any_empty = false;
    [[unroll]] for (uint c = 0; c < R; ++c) {
        empty[c] = row_sum[c] == 0.0;
        any_empty = any_empty || empty[c];
    }
    if (!has(kZeroEmpty) && lanes_max(any_empty ? 1.0 : 0.0) > 0.0) {
        // Rows without an allowed key become the mean of all values.
        uint j = 0;
        do {
            LOAD_SHARES(v_shares, values, r.v_t, j, r.keys, DV, kTypeV)
            [[unroll]] for (uint jj = 0; jj < BLOCK; ++jj) {
                [[unroll]] for (uint c = 0; c < R; ++c) {
                    const float weight = empty[c] && j + jj < r.keys ? 1.0 : 0.0;
                    [[unroll]] for (uint d = 0; d < DV; ++d)
                        y[c * DV + d] = fma(weight, SHARED(v_shares, jj, d, DV, kTypeV), y[c * DV + d]);
                }
            }
            j += BLOCK;
        } while (j < r.keys);
    }
    [[unroll]] for (uint c = 0; c < R; ++c) {
        const float factor = empty[c] ? 1.0 / float(r.keys) : 1.0 / row_sum[c];
        if (row + c * S < r.queries) {
            const uint64_t to = row_at(head_at(r.y, b, r.y_b, h, r.y_h, kTypeY), i[c], r.y_t, kTypeY);
            STORE_ROW(y, c * DV, to, DV, factor, kTypeY)
            const uint64_t at = ((uint64_t(b) * r.heads + h) * r.queries + i[c]) * 2;
            store_pair(r.lse, at, empty[c] ? vec2(0.0, kEmptyRow) : vec2(row_max[c], log_(row_sum[c])));
        }
    }
}
