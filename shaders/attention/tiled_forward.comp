#version 450
#extension GL_GOOGLE_include_directive : require
//! no-optimizer
//! variant t64x64 DOWN=16 ACROSS=16 CHUNK=16
//! variant t64x64_16 DOWN=16 ACROSS=16 CHUNK=16 STORAGE16
//! variant t32x128 DOWN=8 ACROSS=32 CHUNK=8
//! variant t32x128_16 DOWN=8 ACROSS=32 CHUNK=8 STORAGE16
//! variant t64x32 DOWN=16 ACROSS=8 CHUNK=16
//! variant t64x32_16 DOWN=16 ACROSS=8 CHUNK=16 STORAGE16
// Attention for GPUs: what forward.comp computes, a workgroup per block of queries. An online softmax (Milakov and
// Gimelshein 2018; Dao et al. 2022, algorithm 1: row_max is m, row_sum is l, rescale is exp(m - m_new)).
#define PREFETCH true
#include "attention/tile.glsl"

shared vec4 row_factors[DOWN];

void main() {
    Record r = record;
    HEKLA_GROUP(group_of_part, r)
    const uint part = has(kSplit) ? group_of_part % r.parts : 0;
    const uint group = has(kSplit) ? group_of_part / r.parts : group_of_part;
    // Causal rows are dispatched longest first.
    const uint block = has(kCausal) ? r.blocks - 1 - group % r.blocks : group % r.blocks;
    const uint first = block * kOwn;
    const uint h = (group / r.blocks) % r.heads;
    const uint b = group / r.blocks / r.heads;
    const uint g = h / (r.heads / r.key_heads);
    const Rows queries =
        rows_from(head_at(r.q, b, r.q_b, h, r.q_h, kTypeQ), r.q_t, first, r.queries, kTypeQ);
    const uint64_t keys = head_at(r.k, b, r.k_b, g, r.k_h, kTypeK);
    const uint64_t values = head_at(r.v, b, r.v_b, g, r.v_h, kTypeV);
    const uvec4 key = random_key(r);

    vec4 y[kRowsV * kPartsV];
    [[unroll]] for (uint n = 0; n < kRowsV * kPartsV; ++n) y[n] = vec4(0.0);
    vec4 row_max = vec4(-kInfinity); // of the own rows 4 down + i
    vec4 row_sum = vec4(0.0);        // over this thread's columns

    // With default positions, causal rows end at the diagonal and a window begins there.
    uint j0 = 0;
    uint end = r.keys;
    if (has(kCausal) && !has(kPositions | kPrefix)) end = clamp(first + kOwn, 1, r.keys);
    if (has(kWindowAfter) && !has(kPositions)) end = end_of_window(r, first + kOwn, end);
    if (has(kWindow) && !has(kPositions)) {
        j0 = uint(max(int(first) - r.window + 1, 0));
        j0 = min(j0, r.keys - 1) / kOther * kOther;
    }
    uint keys_end = r.keys; // of the workgroup's part
    if (has(kSplit)) {
        const uint from = part * r.part_keys;
        keys_end = min(from + r.part_keys, r.keys);
        j0 = max(j0, from);
        end = min(end, keys_end);
    }
    [[dont_unroll]] do {
        vec4 s[4] = {vec4(0.0), vec4(0.0), vec4(0.0), vec4(0.0)};
        multiply(s, queries, rows_from(keys, r.k_t, j0, r.keys, kTypeK), D);
        uint mask[4];
        [[unroll]] for (uint i = 0; i < 4; ++i)
            mask[i] = mask_of(r, b, h, min(first + down * 4 + i, r.queries - 1), j0 + across * 4);
        [[unroll]] for (uint j = 0; j < 4; ++j) {
            const uint column = j0 + across * 4 + j;
            const uint jj = min(column, r.keys - 1);
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                const uint ii = min(first + down * 4 + i, r.queries - 1);
                const float score = capped(r, s[j][i] * r.scale) + extra_score(r, b, h, ii, jj);
                s[j][i] = is_allowed(r, b, ii, jj, mask[i] >> j) && column < keys_end ? score : -kInfinity;
            }
        }
        const vec4 new_max = max(row_max, max_across(max(max(s[0], s[1]), max(s[2], s[3]))));
        vec4 base, rescale;
        [[unroll]] for (uint i = 0; i < 4; ++i) {
            base[i] = new_max[i] == -kInfinity ? 0.0 : new_max[i];
            rescale[i] = exp_of_score(row_max[i] - base[i]);
        }
        row_max = new_max;
        row_sum *= rescale;
        if (across == 0) row_factors[down] = rescale;
        [[unroll]] for (uint j = 0; j < 4; ++j) {
            [[unroll]] for (uint i = 0; i < 4; ++i) s[j][i] = exp_of_score(s[j][i] - base[i]);
            row_sum += s[j];
        }
        if (has(kDropout)) {
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                const uint ii = min(first + down * 4 + i, r.queries - 1);
                const vec4 kept = keep_four(r, key, b, h, ii, j0 + across * 4);
                [[unroll]] for (uint j = 0; j < 4; ++j) s[j][i] *= kept[j];
            }
        }
        barrier();
        {
            const vec4 factors = rows_of_thread(row_factors[row_quad(kColumnsV)], kColumnsV);
            MULTIPLY_SUMS(y, kColumnsV, kRowsV, kPartsV, factors)
        }
        APPLY(y, DV, kColumnsV, kRowsV, kPartsV, kTakeV, slice_of(s, hekla_slice), rows_from(values, r.v_t, j0, r.keys, kTypeV))
        j0 += kOther;
    } while (j0 < end);

    row_sum = sum_across(row_sum);
    vec4 divisors = row_sum;
    if (has(kSinks) && !has(kSplit)) {
        [[unroll]] for (uint i = 0; i < 4; ++i) {
            float base = row_max[i], sum = row_sum[i];
            divisors[i] = add_sink(r, h, base, sum);
            row_max[i] = base;
            row_sum[i] = sum;
        }
    }
    if (across == 0) row_factors[down] = divisors;
    barrier();
    if (!has(kZeroEmpty | kSplit)) {
        bool any_empty = false;
        EACH(n, DOWN, { any_empty = any_empty || any(equal(row_factors[n], vec4(0.0))); })
        if (any_empty) {
            // Rows without an allowed key become the mean of all values.
            const uint quad = min(thread, quads_of(DV) - 1);
            vec4 mean = vec4(0.0);
            uint j = 0;
            [[dont_unroll]] do {
                mean += load_quad(rows_from(values, r.v_t, j, r.keys, kTypeV), 0, quad * 4, DV);
            } while (++j < r.keys);
            chunk[quad] = mean / float(r.keys);
            barrier();
            const vec4 sums_of_rows = rows_of_thread(row_factors[row_quad(kColumnsV)], kColumnsV);
            [[unroll]] for (uint n = 0; n < kPartsV; ++n) {
                const vec4 of_all = chunk[min(n * kColumnsV + thread % kColumnsV, quads_of(DV) - 1)];
                [[unroll]] for (uint i = 0; i < kRowsV; ++i)
                    if (sums_of_rows[i] == 0.0) y[n * kRowsV + i] = of_all;
            }
        }
    }
    vec4 factors = rows_of_thread(row_factors[row_quad(kColumnsV)], kColumnsV);
    [[unroll]] for (uint i = 0; i < 4; ++i) factors[i] = factors[i] == 0.0 || has(kSplit) ? 1.0 : 1.0 / factors[i];
    const uint rows_of_part = ((b * r.heads + h) * r.parts + part) * r.queries;
    Rows to = rows_from(head_at(r.y, b, r.y_b, h, r.y_h, kTypeY), r.y_t, first, r.queries, kTypeY);
    if (has(kSplit)) to = rows_from(row_at(r.part_sums, rows_of_part, DV, kF32), DV, first, r.queries, kF32);
    STORE_SUMS(y, DV, kColumnsV, kRowsV, kPartsV, to, factors)
    if (across == 0) {
        [[unroll]] for (uint i = 0; i < 4; ++i) {
            const uint row = first + down * 4 + i;
            const uint64_t at = ((uint64_t(b) * r.heads + h) * r.queries + min(row, r.queries - 1)) * 2;
            if (has(kSplit) && row < r.queries)
                store_pair(r.part_numbers, uint64_t(rows_of_part + row) * 2, vec2(row_max[i], row_sum[i]));
            if (!has(kSplit) && row < r.queries)
                store_pair(r.lse, at, row_sum[i] == 0.0 ? vec2(0.0, kEmptyRow) : vec2(row_max[i], log_(row_sum[i])));
        }
    }
}
