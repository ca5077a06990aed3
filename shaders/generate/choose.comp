#version 450
#extension GL_GOOGLE_include_directive : require
// The next token of each row from its scores, as generate::Sampler chooses it, to the bit: greedy, or drawn after
// temperature, top-k, top-p and min-p. Writes it where the next replay reads its token, so that several follow each other
// without the host. A workgroup of SUBGROUPS subgroups per row.
#include "common.glsl"
#include "lanes.glsl"
#include "math.glsl"
#include "philox.glsl"
#include "generate/record.h"

layout(constant_id = 1) const uint SUBGROUPS = 1;
layout(local_size_y_id = 1) in;

PUSH_RECORD(ChooseRecord);

layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer ChangedScores { float v[]; };

shared float of_subgroup[SUBGROUPS];
shared uvec2 sums_of_subgroup[SUBGROUPS * 3];

float row_max(float x) {
    x = lanes_max(x);
    if (SUBGROUPS == 1) return x;
    barrier(); // the last values have been read
    if (gl_SubgroupInvocationID == 0) of_subgroup[gl_SubgroupID] = x;
    barrier();
    x = of_subgroup[0];
    for (uint i = 1; i < SUBGROUPS; ++i) x = max(x, of_subgroup[i]);
    return x;
}

uvec2 add64(uvec2 a, uvec2 b) {
    const uint low = a.x + b.x;
    return uvec2(low, a.y + b.y + (low < b.x ? 1u : 0u));
}
bool exceeds(uvec2 a, uvec2 b) { return a.y > b.y || (a.y == b.y && a.x > b.x); }

uvec2 lanes_sum64(uvec2 x) {
    if (S <= 16) {
        uvec2 y = subgroupBroadcast(x, 0);
        [[unroll]] for (uint i = 1; i < S; ++i) y = add64(y, subgroupBroadcast(x, i));
        return y;
    }
    [[unroll]] for (uint step = 1; step < S; step *= 2) x = add64(x, subgroupShuffleXor(x, step));
    return x;
}

// Sums of three 64-bit integers (low and high word) over the workgroup.
struct ChooseSums {
    uvec2 of[3];
};
ChooseSums row_sums(ChooseSums sums) {
    [[unroll]] for (uint q = 0; q < 3; ++q) sums.of[q] = lanes_sum64(sums.of[q]);
    if (SUBGROUPS == 1) return sums;
    barrier();
    if (gl_SubgroupInvocationID == 0)
        [[unroll]] for (uint q = 0; q < 3; ++q) sums_of_subgroup[gl_SubgroupID * 3 + q] = sums.of[q];
    barrier();
    [[unroll]] for (uint q = 0; q < 3; ++q) sums.of[q] = sums_of_subgroup[q];
    for (uint i = 1; i < SUBGROUPS; ++i)
        [[unroll]] for (uint q = 0; q < 3; ++q) sums.of[q] = add64(sums.of[q], sums_of_subgroup[i * 3 + q]);
    return sums;
}

uint product_high(uint a, uint b) {
    uint high, low;
    umulExtended(a, b, high, low);
    return high;
}

// Returns the share of a token whose score is below the highest by `below`.
uint share_of(float below) {
    precise float halvings = below * kHalvings;
    if (!(halvings < 32.0)) return 0;
    const uint n = uint(halvings * 16777216.0);
    const uint f = n << 8;
    uint p = kShare6 - product_high(f, kShare7);
    p = kShare5 - product_high(f, p);
    p = kShare4 - product_high(f, p);
    p = kShare3 - product_high(f, p);
    p = kShare2 - product_high(f, p);
    p = kShare1 - product_high(f, p);
    p = kShare0 - product_high(f, p);
    return p >> (n >> 24);
}

// Returns a number that is greater for a greater score, and equal for equal ones.
uint order_of(float score) {
    const uint bits = floatBitsToUint(score == 0.0 ? 0.0 : score);
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// A row's scores.
struct ChooseScores {
    uint64_t address;
    uint width;
    bool changed; // by this kernel
    float inverse_temperature;
};
// Returns the score of token base + lane; -infinity past the end.
float score_of(ChooseScores scores, uint base) {
    const uint i = base + gl_SubgroupInvocationID;
    float x;
    if (UNIFORM_LOADS != 0) {
        x = load_consecutive(scores.address + uint64_t(min(base, scores.width - 1)) * 4ul);
    } else {
        const uint64_t at = scores.address + uint64_t(min(i, scores.width - 1)) * 4ul;
        x = scores.changed ? ChangedScores(at).v[0] : Floats(at).v[0];
    }
    precise float scaled = x * scores.inverse_temperature;
    return i < scores.width ? scaled : -kInfinity;
}

#define CHOOSE_EACH(base, first, end)                                                                                  \
    for (uint base = (first) + gl_SubgroupID * S; base < (end); base += S * SUBGROUPS)

// What find() finds: the k-th highest score; the lowest score of the most likely tokens whose shares are more than a
// sum; the token at which the shares of all tokens up to it exceed a sum.
const uint kFindByCount = 0;
const uint kFindByShare = 1;
const uint kFindToken = 2;

// Shares of tokens of at least the order `least`; `top` is the highest score.
struct ChooseShares {
    float top;
    uint least;
};

// Returns the smallest key below 2^bits for which the sum over all keys up to it exceeds `limit`, two bits at a time. Keys
// are orders of scores (kFindByCount: inverted), or the tokens themselves.
uint find_key(uint what, uint bits, uvec2 limit, ChooseScores scores, ChooseShares shares) {
    uint key = 0;
    uvec2 sum = uvec2(0); // of keys below `key`
    for (uint shift = bits; shift > 0;) {
        shift -= 2;
        ChooseSums quarters;
        [[unroll]] for (uint q = 0; q < 3; ++q) quarters.of[q] = uvec2(0);
        uint first = 0;
        uint end = scores.width;
        if (what == kFindToken) {
            first = min(key, scores.width);
            end = min(scores.width, key + (4u << shift));
        }
        CHOOSE_EACH(base, first, end) {
            const uint i = base + gl_SubgroupInvocationID;
            const float score = score_of(scores, base);
            const uint order = order_of(score);
            const uint own = what == kFindToken ? i : (what == kFindByCount ? ~order : order);
            uint weight = 1;
            if (what != kFindByCount) weight = order >= shares.least ? share_of(shares.top - score) : 0u;
            const uint quarter = (own - key) >> shift;
            if (i < end) {
                [[unroll]] for (uint q = 0; q < 3; ++q)
                    quarters.of[q] = add64(quarters.of[q], uvec2(quarter == q ? weight : 0u, 0u));
            }
        }
        quarters = row_sums(quarters);
        uint quarter = 0;
        uvec2 next = add64(sum, quarters.of[0]);
        [[unroll]] for (uint q = 1; q <= 3; ++q)
            if (quarter == q - 1 && !exceeds(next, limit)) {
                quarter = q;
                sum = next;
                if (q < 3) next = add64(sum, quarters.of[q]);
            }
        key += quarter << shift;
    }
    return key;
}

// Returns the sum of all shares.
uvec2 total_of(ChooseScores scores, ChooseShares shares) {
    ChooseSums sums;
    [[unroll]] for (uint q = 0; q < 3; ++q) sums.of[q] = uvec2(0);
    CHOOSE_EACH(base, 0u, scores.width) {
        const float score = score_of(scores, base);
        if (order_of(score) >= shares.least)
            sums.of[0] = add64(sums.of[0], uvec2(share_of(shares.top - score), 0u));
    }
    return row_sums(sums).of[0];
}

// Returns the whole part of x * share / 2^64; both are low and high word, and the result is less than x.
uvec2 part_of(uvec2 x, uvec2 share) {
    uint high, low, carry_high, carry_low;
    uvec2 sum = uvec2(product_high(x.x, share.x), 0u);
    umulExtended(x.y, share.x, high, low);
    sum = add64(sum, uvec2(low, high));
    umulExtended(x.x, share.y, carry_high, carry_low);
    const uvec2 middle = uvec2(carry_low, carry_high);
    const uvec2 before = sum;
    sum = add64(sum, middle);
    const uint over = exceeds(before, sum) ? 1u : 0u; // the sum wrapped around
    umulExtended(x.y, share.y, high, low);
    return add64(uvec2(low, high), uvec2(sum.y, over));
}

// Returns the token that is drawn.
uint draw(ChooseScores scores, float top, uint row, uint position, ChooseOptions o) {
    ChooseShares shares = ChooseShares(top, 0u);
    if (o.top_k > 0 && o.top_k < scores.width)
        shares.least = ~find_key(kFindByCount, 32, uvec2(o.top_k - 1, 0u), scores, shares);
    if (o.dropped_share > 0) {
        const uvec2 dropped = part_of(total_of(scores, shares), uvec2(0u, o.dropped_share));
        shares.least = find_key(kFindByShare, 32, dropped, scores, shares);
    }
    precise float lowest = top - o.kept_range;
    shares.least = max(shares.least, order_of(lowest));
    const uvec2 number = add64(uvec2(o.first_row_low, o.first_row_high), uvec2(row, 0u));
    const uvec4 words = philox(uvec4(position, 0u, number.x, number.y), uvec2(o.seed_low, o.seed_high));
    const uvec2 wanted = part_of(total_of(scores, shares), words.yx);
    const uint bits = uint(findMSB(max(scores.width - 1, 1u))) + 1;
    return find_key(kFindToken, bits + (bits & 1), wanted, scores, shares);
}

void main() {
    ChooseRecord r = record;
    HEKLA_GROUP(row, r)
    ChooseOptions o = ChooseOptions(r.options);
    ChooseRow state = ChooseRow(r.rows + uint64_t(row) * 16ul);
    if (o.on == 0 || state.left == 0) return;
    ChooseScores scores = ChooseScores(r.logits + uint64_t(row * r.stride) * 4ul, r.width, false, 1.0);
    const uint lane = gl_SubgroupID * S + gl_SubgroupInvocationID;
    const uint lanes = S * SUBGROUPS;

    const bool forces = state.left == 1 && o.forced > 0;
    const uint first = state.required > 0 || forces ? 0 : o.ends; // end tokens, then suppressed ones
    const uint end = o.ends + o.suppressed;
    if (o.biased > 0) {
        for (uint k = lane; k < o.biased; k += lanes) {
            const int id = o.ids[end + o.forced + k];
            if (id >= 0 && id < int(r.width)) {
                ChangedScores score = ChangedScores(scores.address + uint64_t(uint(id)) * 4ul);
                score.v[0] = score.v[0] + intBitsToFloat(o.biases[k]);
            }
        }
        memoryBarrierBuffer();
        barrier();
    }

    // Forbidden tokens.
    const bool forbids = forces || first < end;
    scores.changed = forbids || o.biased > 0;
    if (forbids) {
        if (forces) {
            for (uint i = lane; i < r.width; i += lanes) {
                bool allowed = false;
                for (uint k = end; k < end + o.forced; ++k) allowed = allowed || o.ids[k] == int(i);
                for (uint k = o.ends; k < end; ++k) allowed = allowed && o.ids[k] != int(i);
                ChangedScores(scores.address + uint64_t(i) * 4ul).v[0] = allowed ? 0.0 : -kInfinity;
            }
        } else {
            for (uint k = first + lane; k < end; k += lanes) {
                const int id = o.ids[k];
                if (id >= 0 && id < int(r.width))
                    ChangedScores(scores.address + uint64_t(uint(id)) * 4ul).v[0] = -kInfinity;
            }
        }
        memoryBarrierBuffer();
        barrier();
    }

    // The first of the highest scores.
    float lane_max = -kInfinity;
    float not_finite = 0.0;
    uint place = 0;
    CHOOSE_EACH(base, 0u, r.width) {
        const float score = score_of(scores, base);
        if (is_nan(score) || score == kInfinity) not_finite = 1.0;
        if (score > lane_max) {
            lane_max = score;
            place = base + gl_SubgroupInvocationID;
        }
    }
    const float top = row_max(lane_max);
    int token;
    if (row_max(not_finite) > 0.0) {
        token = kNotFinite;
    } else if (top == -kInfinity) {
        token = kNoTokenAllowed;
    } else if (o.draws == 0) {
        token = int(-row_max(lane_max == top ? -float(place) : -kInfinity));
    } else {
        scores.inverse_temperature = o.inverse_temperature;
        precise float scaled = top * o.inverse_temperature;
        token = int(draw(scores, scaled, row, state.position, o));
    }
    bool ends = token < 0 || state.left == 1;
    for (uint k = 0; k < o.ends; ++k) ends = ends || o.ids[k] == token;
    if (SUBGROUPS > 1) barrier(); // everyone has read the row
    if (lane == 0) {
        store_int(r.chosen, uint64_t(row * kChosenSlots + state.slot % kChosenSlots), token);
        store_int(r.tokens, uint64_t(row), clamp(token, 0, int(r.width) - 1));
        store_int(r.start, uint64_t(row), ends ? 0 : load_int(r.start, uint64_t(row)) + 1);
        store_int(r.count, uint64_t(row), ends ? 0 : 1);
        state.slot = state.slot + 1;
        state.position = state.position + 1;
        state.required = state.required > 0 ? state.required - 1 : 0;
        state.left = ends ? 0 : state.left - 1;
    }
}
