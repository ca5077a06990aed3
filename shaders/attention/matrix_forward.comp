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
// Attention by matrix units: what forward.comp computes. Exponentials are relative to a score of the row that is raised, and
// the sums are multiplied by exp(before - after), only where a score exceeds it by kRise: matrix units add to sums, but
// cannot multiply rows, which takes a way through shared memory. With ELEMENTS it is 40 multiplications.
#include "attention/matrix.glsl"

const float kRise = 8.0; // e^8 and sums of such numbers are far from the largest float16

#ifdef ELEMENTS
// Of the score of key element_other + down + j and query element_own + across + i.
float score_at(uint down, uint across, float s, uint j, uint i, bool whole) {
    const uint column = element_other + j + down;
    const uint at_key = min(column, element_record.keys - 1);
    const uint at_query = min(element_own + i + across, element_record.queries - 1);
    // A block has the keys of one word.
    const uint mask =
        has(kMask) ? mask_of(element_record, element_b, element_h, at_query, element_other) >> (j + down) : ~0u;
    const float score =
        capped(element_record, s * element_record.scale) + extra_score(element_record, element_b, element_h, at_query, at_key);
    if (whole) return score;
    return is_allowed(element_record, element_b, at_query, at_key, mask) && column < element_end ? score : -kInfinity;
}
float score_of(const in uint32_t down, const in uint32_t across, const in float s, const in uint32_t j,
               const in uint32_t i) {
    return score_at(down, across, s, j, i, false);
}
float score_of_whole(const in uint32_t down, const in uint32_t across, const in float s, const in uint32_t j,
                     const in uint32_t i) {
    return score_at(down, across, s, j, i, true);
}
float raised(const in uint32_t down, const in uint32_t across, const in float base, const in float most) {
    return most > base + kRise ? most : base;
}
// 0 where there was no base: there are no sums yet.
float rise_of(const in uint32_t down, const in uint32_t across, const in float before, const in float after) {
    return exponential(before == after ? 0.0 : before - after);
}
float probability_of(const in uint32_t down, const in uint32_t across, const in float s, const in float base) {
    return exponential(s - (base == -kInfinity ? 0.0 : base));
}
float dropped(const in uint32_t down, const in uint32_t across, const in float p, const in uint32_t j,
              const in uint32_t i) {
    return p * keep_of_key(i + across, j + down);
}
#endif

void main() {
    Record r = record;
    HEKLA_GROUP(group_of_part, r)
    const uint part = has(kSplit) ? group_of_part % r.parts : 0;
    const uint group = has(kSplit) ? group_of_part / r.parts : group_of_part;
    // Causal rows are dispatched longest first.
    const uint block = has(kCausal) ? r.blocks - 1 - group % r.blocks : group % r.blocks;
    const uint h = (group / r.blocks) % r.heads;
    const uint b = group / r.blocks / r.heads;
    const uint g = h / (r.heads / r.key_heads);
    const uint first_of_group = block * kOwn;
    const uint first = min(first_of_group + subgroup * ROWS, r.queries - 1); // of the subgroup
    const uint row = first_of_group + subgroup * ROWS + lane_row;
    const uint i = min(row, r.queries - 1);
    const uint64_t keys = head_at(r.k, b, r.k_b, g, r.k_h, kTypeK);
    const uint64_t values = head_at(r.v, b, r.v_b, g, r.v_h, kTypeV);
    const uvec4 key = random_key(r);

    Own q[kDown * kStepsD];
    const Rows queries = rows_from(head_at(r.q, b, r.q_b, h, r.q_h, kTypeQ), r.q_t, first, r.queries, kTypeQ);
    LOAD_OWN(q, queries, D, kStepsD)
    Sums y[kDown * kAcrossV];
    [[unroll]] for (uint n = 0; n < kDown * kAcrossV; ++n) y[n] = Sums(0.0);
#ifdef ELEMENTS
    element_record = r;
    element_b = b;
    element_h = h;
    element_own = first;
    // All rows of these are equal, except that row_sums are of the elements where they stand until they are added.
    Sums bases[kDown], row_sums[kDown];
    [[unroll]] for (uint n = 0; n < kDown; ++n) {
        bases[n] = Sums(-kInfinity);
        row_sums[n] = Sums(0.0);
    }
#else
    float base = -kInfinity; // of the exponentials of the lane's row
    float row_sum = 0.0;     // of the lane's columns
#endif

    // With default positions, causal rows end at the diagonal and a window begins there.
    uint j0 = 0;
    uint end = r.keys;
    const bool ends_at_diagonal = has(kCausal) && !has(kPositions | kPrefix);
    if (ends_at_diagonal) end = clamp(first_of_group + kOwn, 1, r.keys);
    if (has(kWindowAfter) && !has(kPositions)) end = end_of_window(r, first_of_group + kOwn, end);
    if (has(kWindow) && !has(kPositions)) {
        j0 = uint(max(int(first_of_group) - r.window + 1, 0));
        j0 = min(j0, r.keys - 1) / OTHER * OTHER;
    }
    uint keys_end = r.keys; // of the workgroup's part
    if (has(kSplit)) {
        const uint from = part * r.part_keys;
        keys_end = min(from + r.part_keys, r.keys);
        j0 = max(j0, from);
        end = min(end, keys_end);
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
            Sums s[kBlocks * kDown];
            MULTIPLY(s, q, tile_d, kStrideD, kStepsD)
            element_other = j0;
            element_end = keys_end;
            const bool whole = j0 + OTHER <= keys_end && all_allowed(r, first, ROWS, j0, OTHER);
            bool rises = false;
            Sums before[kDown];
            [[unroll]] for (uint n = 0; n < kDown; ++n) {
                [[unroll]] for (uint t = 0; t < kBlocks; ++t) {
                    if (whole)
                        coopMatPerElementNV(s[t * kDown + n], s[t * kDown + n], score_of_whole, t * MM, n * MN);
                    else coopMatPerElementNV(s[t * kDown + n], s[t * kDown + n], score_of, t * MM, n * MN);
                }
                Sums most = s[n];
                [[unroll]] for (uint t = 1; t < kBlocks; ++t)
                    coopMatPerElementNV(most, most, larger_element, s[t * kDown + n]);
                coopMatReduceNV(most, most, gl_CooperativeMatrixReduceColumnNV, larger);
                before[n] = bases[n];
                coopMatPerElementNV(bases[n], bases[n], raised, most);
                [[unroll]] for (uint e = 0; e < most.length(); ++e)
                    rises = rises || (bases[n][e] != before[n][e] && before[n][e] != -kInfinity);
            }
            if (subgroupAny(rises)) {
                [[unroll]] for (uint n = 0; n < kDown; ++n) {
                    Sums factor;
                    coopMatPerElementNV(factor, before[n], rise_of, bases[n]);
                    row_sums[n] = row_sums[n] * factor;
                    [[unroll]] for (uint d = 0; d < kAcrossV; ++d)
                        y[n * kAcrossV + d] = y[n * kAcrossV + d] * factor;
                }
            }
            if (has(kDropout)) keep_of_keys(r, key, b, h, first, j0);
            [[unroll]] for (uint n = 0; n < kDown; ++n)
                [[unroll]] for (uint t = 0; t < kBlocks; ++t) {
                    coopMatPerElementNV(s[t * kDown + n], s[t * kDown + n], probability_of, bases[n]);
                    row_sums[n] = row_sums[n] + s[t * kDown + n];
                    if (has(kDropout))
                        coopMatPerElementNV(s[t * kDown + n], s[t * kDown + n], dropped, t * MM, n * MN);
                }
            ACCUMULATE(y, s, tile_v, kStrideV, kAcrossV)
            if (has(kDropout)) wait_for_subgroup(); // what was kept has been read
#else
            MULTIPLY(q, tile_d, kStrideD, kStepsD)
            float s[SHARE];
            TAKE_SHARE(s)
            float most = -kInfinity;
            if (j0 + OTHER <= keys_end && all_allowed(r, first, ROWS, j0, OTHER)) {
                [[unroll]] for (uint n = 0; n < SHARE; ++n) {
                    s[n] = capped(r, s[n] * r.scale) + extra_score(r, b, h, i, j0 + lane_column + n);
                    most = max(most, s[n]);
                }
            } else {
                const uint mask = mask_of(r, b, h, i, j0 + lane_column);
                [[unroll]] for (uint n = 0; n < SHARE; ++n) {
                    const uint column = j0 + lane_column + n;
                    const uint j = min(column, r.keys - 1);
                    const float score = capped(r, s[n] * r.scale) + extra_score(r, b, h, i, j);
                    s[n] = is_allowed(r, b, i, j, mask >> n) && column < keys_end ? score : -kInfinity;
                    most = max(most, s[n]);
                }
            }
            most = max_of_row(most);
            const bool is_first = base == -kInfinity;
            const bool rises = most > base + kRise;
            const float before = base;
            if (is_first || rises) base = most;
            if (subgroupAny(rises && !is_first)) {
                const float factor = rises && !is_first ? exponential(before - base) : 1.0;
                row_sum *= factor;
                [[unroll]] for (uint f = 0; f < kWidthV; f += OTHER) {
                    SPREAD(y, kAcrossV, f)
                    [[unroll]] for (uint n = 0; n < SHARE / 4; ++n) {
                        const uint at = strip + lane_row * kScoreStride + lane_column / 4 + n;
                        strips[at] = floatBitsToUint(uintBitsToFloat(strips[at]) * factor);
                    }
                    wait_for_subgroup();
                    [[unroll]] for (uint j = 0; j < OTHER / MN; ++j)
                        [[unroll]] for (uint d = 0; d < kDown; ++d)
                            if (f / MN + j < kAcrossV)
                                coopMatLoad(y[d * kAcrossV + min(f / MN + j, kAcrossV - 1)], strips,
                                            strip + d * MM * kScoreStride + j * (MN / 4), kScoreStride,
                                            gl_CooperativeMatrixLayoutRowMajor);
                    wait_for_subgroup();
                }
            }
            const float from = base == -kInfinity ? 0.0 : base;
            [[unroll]] for (uint n = 0; n < SHARE; ++n) {
                s[n] = exponential(s[n] - from);
                row_sum += s[n];
            }
            if (has(kDropout)) {
                [[unroll]] for (uint n = 0; n < SHARE; n += 4) {
                    const vec4 kept = keep_four(r, key, b, h, i, j0 + lane_column + n);
                    [[unroll]] for (uint c = 0; c < 4; ++c) s[n + c] *= kept[c];
                }
            }
            GIVE_SHARE(s)
            ACCUMULATE(y, tile_v, kStrideV, kAcrossV)
#endif
        }
        j0 += OTHER;
    } while (j0 < end);

#ifdef ELEMENTS
    [[unroll]] for (uint n = 0; n < kDown; ++n)
        coopMatReduceNV(row_sums[n], row_sums[n], gl_CooperativeMatrixReduceColumnNV, total);
    float base, row_sum;
    TAKE_NUMBER(base, bases)
    TAKE_NUMBER(row_sum, row_sums)
#else
    row_sum = sum_of_row(row_sum);
#endif
    const bool in_range = row < r.queries;
    if (has(kSplit)) {
        const uint of_part = ((b * r.heads + h) * r.parts + part) * r.queries + i;
        STORE_SUMS(y, kAcrossV, row_at(r.part_sums, of_part, DV, kF32), kF32, DV, in_range, 1.0)
        if (in_range && lane < ROWS) store_pair(r.part_numbers, uint64_t(of_part) * 2, vec2(base, row_sum));
        return;
    }
    float divisor = row_sum;
    if (has(kSinks)) divisor = add_sink(r, h, base, row_sum);
    const bool empty = row_sum == 0.0;
    const uint64_t to = row_at(head_at(r.y, b, r.y_b, h, r.y_h, kTypeY), i, r.y_t, kTypeY);
    const float factor = empty ? 0.0 : 1.0 / divisor;
    STORE_SUMS(y, kAcrossV, to, kTypeY, DV, in_range, factor)
    if (!has(kZeroEmpty) && empty && in_range) {
        // A row without an allowed key becomes the mean of all values: here quads of columns by the row's lanes.
        for (uint d = lane / ROWS * 4; d < DV; d += kLanesPerRow * 4) {
            vec4 mean = vec4(0.0);
            for (uint j = 0; j < r.keys; ++j)
                mean += unpack_four(kType, GivenHalfQuads(row_at(values, j, r.v_t, kTypeV) + uint64_t(d) * 2ul).v);
            store_four(to, d, kTypeY, mean / float(r.keys));
        }
    }
    if (in_range && lane < ROWS) {
        const uint64_t at = uint64_t((b * r.heads + h) * r.queries + i) * 2;
        store_pair(r.lse, at, empty ? vec2(0.0, kEmptyRow) : vec2(base, log_(row_sum)));
    }
}
