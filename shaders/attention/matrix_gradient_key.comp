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
// What gradient_key.comp computes, by matrix units: dk and dv. The query heads of a group are processed one after the other.
#include "attention/matrix.glsl"

// Which of dk (1) and dv (2) are computed: both, or one where registers do not suffice for both.
layout(constant_id = 4) const uint OUTPUTS = 3;
const bool kHasDk = (OUTPUTS & 1) != 0;
const bool kHasDv = (OUTPUTS & 2) != 0;

shared vec4 of_queries[OTHER]; // of a block: lse in two parts, delta, and the share of a row with nothing allowed

#ifdef ELEMENTS
// The probability of key element_own + across + i for query element_other + down + j: negative if dropout removes it.
float probability_at(uint down, uint across, float s, uint j, uint i, bool whole) {
    const uint column = element_other + j + down;
    const uint at_query = min(column, element_record.queries - 1);
    const uint at_key = min(element_own + i + across, element_record.keys - 1);
    const vec4 numbers = of_queries[j + down];
    const uint mask = whole ? ~0u : mask_of(element_record, element_b, element_h, at_query, at_key);
    const bool allowed = whole || is_allowed(element_record, element_b, at_query, at_key, mask) &&
                                      column < element_record.queries && numbers.y != kEmptyRow;
    const float score = capped(element_record, s * element_record.scale) +
                        extra_score(element_record, element_b, element_h, at_query, at_key);
    const float p = allowed ? exponential(score - numbers.x - numbers.y) : 0.0;
    return has(kDropout) && keep_of_query(i + across, j + down) == 0.0 ? -p : p;
}
float probability_of(const in uint32_t down, const in uint32_t across, const in float s, const in uint32_t j,
                     const in uint32_t i) {
    return probability_at(down, across, s, j, i, false);
}
float probability_of_whole(const in uint32_t down, const in uint32_t across, const in float s, const in uint32_t j,
                           const in uint32_t i) {
    return probability_at(down, across, s, j, i, true);
}
// The derivative of a capped score.
float slope_of(const in uint32_t down, const in uint32_t across, const in float s) {
    return slope_of_capped(element_record, capped(element_record, s * element_record.scale));
}
// What the values are multiplied by: with the share of a row with nothing allowed.
float used_of(const in uint32_t down, const in uint32_t across, const in float p, const in uint32_t j) {
    const float used = has(kDropout) ? max(p, 0.0) * element_record.dropout_factor : p;
    return used + (element_other + j + down < element_record.queries ? of_queries[j + down].w : 0.0);
}
float gradient_of(const in uint32_t down, const in uint32_t across, const in float dp, const in float p,
                  const in uint32_t j) {
    const float delta = of_queries[j + down].z;
    const float ds = has(kDropout) ? max(p, 0.0) * element_record.dropout_factor * dp - abs(p) * delta
                                   : p * (dp - delta);
    // Where the probability is 0, so is the gradient, whatever dp is.
    return p == 0.0 ? 0.0 : ds;
}
#else
// Returns the factors of dropout for queries i .. i + 3 and this lane's key, of the subgroup's from `first` on: of four neighboring lanes, each makes the
// numbers of four keys for one query, and passes them on as bits.
vec4 keep_of_queries(Record r, uvec4 key, uint b, uint h, uint i, uint first) {
    const uint own = lane_row % 4, neighbor = lane - own;
    const uint j = first + lane_row - own;
    const uvec4 kept = uvec4(greaterThan(keep_four(r, key, b, h, min(i + own, r.queries - 1), j), vec4(0.0)));
    const uint bits = kept.x | kept.y << 1 | kept.z << 2 | kept.w << 3;
    vec4 factors;
    [[unroll]] for (uint n = 0; n < 4; ++n)
        factors[n] = (subgroupShuffle(bits, neighbor + n) >> own & 1u) != 0 ? r.dropout_factor : 0.0;
    return factors;
}

// Makes probabilities of a lane's share of scores, in p. whole: every pair is allowed.
#define PROBABILITIES(whole)                                                                                           \
    [[unroll]] for (uint n4 = 0; n4 < SHARE; n4 += 4) {                                                                \
        vec4 kept = vec4(1.0);                                                                                         \
        if (has(kDropout)) kept = keep_of_queries(r, key, b, h, i0 + lane_column + n4, first);                         \
        [[unroll]] for (uint c = 0; c < 4; ++c) {                                                                      \
            const uint column = i0 + lane_column + n4 + c;                                                             \
            const uint i = whole ? column : min(column, r.queries - 1);                                                \
            const vec4 numbers = of_queries[lane_column + n4 + c];                                                     \
            const bool allowed = whole || is_allowed(r, b, i, j, mask_of(r, b, h, i, j)) && column < r.queries &&      \
                                              numbers.y != kEmptyRow;                                                  \
            const float s_capped = capped(r, p[n4 + c] * r.scale);                                                     \
            if (has(kSoftcap)) slopes[n4 + c] = slope_of_capped(r, s_capped);                                          \
            const float score = s_capped + extra_score(r, b, h, i, j);                                                 \
            const float probability = allowed ? exponential(score - numbers.x - numbers.y) : 0.0;                      \
            p[n4 + c] = kept[c] == 0.0 ? -probability : probability;                                                   \
        }                                                                                                              \
    }
#endif

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const uint g = (group / r.blocks) % r.key_heads;
    const uint b = group / r.blocks / r.key_heads;
    const uint shared_by = r.heads / r.key_heads;
    const uint first_of_group = group % r.blocks * kOwn;
    const uint first = first_of_group + subgroup * ROWS; // of the subgroup
    const uint row = first + lane_row;
    const uint j = min(row, r.keys - 1);
    const uvec4 key = random_key(r);

    Own k[kDown * kStepsD], v[kDown * kStepsV];
    const uint first_loaded = min(first, r.keys - 1);
    LOAD_OWN(k, rows_from(head_at(r.k, b, r.k_b, g, r.k_h, kTypeK), r.k_t, first_loaded, r.keys, kTypeK), D, kStepsD)
    if (kHasDk)
        LOAD_OWN(v, rows_from(head_at(r.v, b, r.v_b, g, r.v_h, kTypeV), r.v_t, first_loaded, r.keys, kTypeV), DV, kStepsV)
    Sums dk[kDown * kAcrossD], dv[kDown * kAcrossV];
    [[unroll]] for (uint n = 0; n < kDown * kAcrossD; ++n) dk[n] = Sums(0.0);
    [[unroll]] for (uint n = 0; n < kDown * kAcrossV; ++n) dv[n] = Sums(0.0);

#ifdef ELEMENTS
    element_record = r;
    element_b = b;
    element_own = first;
#endif

    // Which queries there are, as in tiled_gradient_key.comp.
    const bool shares_empty = !has(kZeroEmpty) && (OPTIONS & 0xFFFFu & ~(kCausal | kDropout)) != 0;
    const bool has_masks = has(kKeyPadding | kQueryPadding | kMask | kGroups);
    const bool only_near = !has(kPositions | kPrefix) &&
                           (has(kZeroEmpty) || !has_masks && (!has(kWindow) || r.queries <= r.keys));
    const bool begins_at_diagonal = has(kCausal) && only_near;
    uint begin = 0;
    uint end = r.queries;
    if (begins_at_diagonal) begin = min(first_of_group, r.queries - 1) / OTHER * OTHER;
    if (has(kWindowAfter) && !has(kCausal) && only_near) begin = begin_of_window(r, first_of_group) / OTHER * OTHER;
    if (has(kWindow) && only_near)
        end = clamp(first_of_group + kOwn - 1 + min(uint(r.window), r.queries), begin + 1, r.queries);
    const uint blocks_of_head = (end - begin + OTHER - 1) / OTHER;
    const uint blocks = blocks_of_head * shared_by;

    uvec4 next_queries[UNITS(kWidthD)], next_dy[UNITS(kWidthV)];
    vec4 next_numbers = vec4(0.0);
    uint n = 0;
    // One iteration more than blocks: each loads the next block while it computes one.
    [[dont_unroll]] do {
        const bool computes = n > 0;
        if (computes) {
            barrier(); // the tiles of the block before have been read
            PLACE(tile_d, next_queries, kWidthD, kStrideD)
            PLACE(tile_v, next_dy, kWidthV, kStrideV)
            if (thread < OTHER) of_queries[thread] = next_numbers;
            barrier();
        }
        const uint next = min(n, blocks - 1);
        const uint next_head = g * shared_by + next / blocks_of_head;
        const uint next_i0 = begin + next % blocks_of_head * OTHER;
        FETCH(next_queries,
              rows_from(head_at(r.q, b, r.q_b, next_head, r.q_h, kTypeQ), r.q_t, next_i0, r.queries, kTypeQ), D, kWidthD)
        FETCH(next_dy,
              rows_from(head_at(r.dy, b, r.dy_b, next_head, r.dy_h, kTypeDy), r.dy_t, next_i0, r.queries, kTypeDy), DV,
              kWidthV)
        {
            const uint i = min(next_i0 + min(thread, OTHER - 1), r.queries - 1);
            const uint64_t at = uint64_t((b * r.heads + next_head) * r.queries + i);
            const vec2 lse = given_pair(r.lse, at * 2);
            next_numbers = vec4(lse, kHasDk ? given_float(r.delta, at) : 0.0,
                                shares_empty && lse.y == kEmptyRow ? 1.0 / float(r.keys) : 0.0);
        }
        const uint block = n - 1;
        const uint h = g * shared_by + block / blocks_of_head;
        const uint i0 = begin + block % blocks_of_head * OTHER;
        // Nothing of a block before the diagonal is allowed.
        if (computes && (!begins_at_diagonal || i0 + OTHER > first)) {
#ifdef ELEMENTS
            element_h = h;
            element_other = i0;
            if (has(kDropout)) keep_of_queries(r, key, b, h, i0, first);
            Sums p[kBlocks * kDown], x[kBlocks * kDown];
            MULTIPLY(p, k, tile_d, kStrideD, kStepsD)
            Sums slopes[kBlocks * kDown];
            if (has(kSoftcap)) {
                [[unroll]] for (uint t = 0; t < kBlocks * kDown; ++t)
                    coopMatPerElementNV(slopes[t], p[t], slope_of);
            }
            const bool whole = i0 + OTHER <= r.queries && all_allowed(r, i0, OTHER, first, ROWS);
            [[unroll]] for (uint d = 0; d < kDown; ++d)
                [[unroll]] for (uint t = 0; t < kBlocks; ++t) {
                    if (whole)
                        coopMatPerElementNV(p[t * kDown + d], p[t * kDown + d], probability_of_whole, t * MM, d * MN);
                    else coopMatPerElementNV(p[t * kDown + d], p[t * kDown + d], probability_of, t * MM, d * MN);
                }
            if (kHasDv) {
                [[unroll]] for (uint d = 0; d < kDown; ++d)
                    [[unroll]] for (uint t = 0; t < kBlocks; ++t)
                        coopMatPerElementNV(x[t * kDown + d], p[t * kDown + d], used_of, t * MM);
                ACCUMULATE(dv, x, tile_v, kStrideV, kAcrossV)
            }
            if (kHasDk) {
                MULTIPLY(x, v, tile_v, kStrideV, kStepsV)
                [[unroll]] for (uint d = 0; d < kDown; ++d)
                    [[unroll]] for (uint t = 0; t < kBlocks; ++t)
                        coopMatPerElementNV(x[t * kDown + d], x[t * kDown + d], gradient_of, p[t * kDown + d], t * MM);
                if (has(kSoftcap)) {
                    [[unroll]] for (uint t = 0; t < kBlocks * kDown; ++t) x[t] = x[t] * slopes[t];
                }
                ACCUMULATE(dk, x, tile_d, kStrideD, kAcrossD)
            }
            if (has(kDropout)) wait_for_subgroup(); // what was kept has been read
#else
            // The probabilities; negative those that dropout removes.
            float p[SHARE], slopes[SHARE];
            MULTIPLY(k, tile_d, kStrideD, kStepsD)
            TAKE_SHARE(p)
            if (i0 + OTHER <= r.queries && all_allowed(r, i0, OTHER, first, ROWS)) PROBABILITIES(true)
            else PROBABILITIES(false)
            float x[SHARE];
            if (kHasDv) {
                [[unroll]] for (uint c = 0; c < SHARE; ++c) {
                    const float used = has(kDropout) ? max(p[c], 0.0) * r.dropout_factor : p[c];
                    const float share = i0 + lane_column + c < r.queries ? of_queries[lane_column + c].w : 0.0;
                    x[c] = used + share;
                }
                GIVE_SHARE(x)
                ACCUMULATE(dv, tile_v, kStrideV, kAcrossV)
            }
            if (kHasDk) {
                MULTIPLY(v, tile_v, kStrideV, kStepsV)
                TAKE_SHARE(x)
                [[unroll]] for (uint c = 0; c < SHARE; ++c) {
                    const float delta = of_queries[lane_column + c].z;
                    const float ds = has(kDropout) ? max(p[c], 0.0) * r.dropout_factor * x[c] - abs(p[c]) * delta
                                                   : p[c] * (x[c] - delta);
                    // Where the probability is 0, so is the gradient, whatever dp is.
                    x[c] = p[c] == 0.0 ? 0.0 : has(kSoftcap) ? ds * slopes[c] : ds;
                }
                GIVE_SHARE(x)
                ACCUMULATE(dk, tile_d, kStrideD, kAcrossD)
            }
#endif
        }
    } while (++n <= blocks);

    const bool in_range = row < r.keys;
    if (kHasDk) {
        const uint64_t to_k = row_at(head_at(r.dk, b, r.dk_b, g, r.dk_h, kTypeDk), j, r.dk_t, kTypeDk);
        STORE_SUMS(dk, kAcrossD, to_k, kTypeDk, D, in_range, r.scale)
    }
    if (kHasDv) {
        const uint64_t to_v = row_at(head_at(r.dv, b, r.dv_b, g, r.dv_h, kTypeDv), j, r.dv_t, kTypeDv);
        STORE_SUMS(dv, kAcrossV, to_v, kTypeDv, DV, in_range, 1.0)
    }
}
