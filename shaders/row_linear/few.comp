#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant fours FOURS
// y[b, t] = M x[b, t] with the matrix M of row b, for few tokens a row: one subgroup per token and block of outputs. Rows
// without a matrix are 0.
#include "common.glsl"
#include "lanes.glsl"
#include "row_linear/record.h"

layout(constant_id = 1) const uint W = 1; // elements per load along a matrix's rows
layout(constant_id = 2) const uint LAYOUT = kAlongInputs;

PUSH_RECORD(FewRecord);

void along_inputs(FewRecord r, uint64_t x, uint64_t matrix, uint64_t y, uint first, bool chosen) {
    uint64_t row[kOutputsAlong];
    PART sum[kOutputsAlong];
    [[unroll]] for (uint j = 0; j < kOutputsAlong; ++j) {
        row[j] = matrix + uint64_t(min(first + j, r.out_ - 1) * r.in_) * 4ul;
        sum[j] = PART(0.0);
    }
    HEKLA_EACH_SHARE(i, r.in_, W, {
        const PART part = load_part(x, i, r.in_, W, 0.0);
        [[unroll]] for (uint j = 0; j < kOutputsAlong; ++j)
            sum[j] = fma(part, load_part(row[j], i, r.in_, W, 0.0), sum[j]);
    })
    const uint lane = gl_SubgroupInvocationID;
    [[unroll]] for (uint from = 0; from < kOutputsAlong; from += S) {
        float mine = 0.0;
        [[unroll]] for (uint j = from; j < min(from + S, kOutputsAlong); ++j)
            mine = mix(mine, lanes_sum(sum_of(sum[j])), lane == j - from);
        const uint n = first + from + lane;
        if (from + lane < kOutputsAlong && n < r.out_) store_float(y, uint64_t(n), chosen ? mine : 0.0, kF32);
    }
}

void across_outputs(FewRecord r, uint64_t x, uint64_t matrix, uint64_t y, uint first, bool chosen) {
    float sum[kOutputsAcross];
    uint64_t row[kOutputsAcross]; // of this lane's outputs; with kInputFirst of the first lane's
    [[unroll]] for (uint c = 0; c < kOutputsAcross; ++c) {
        sum[c] = 0.0;
        const uint begin = min(first + c * S, r.out_ - 1);
        row[c] = matrix + uint64_t(LAYOUT == kInputFirst ? begin
                                                         : min(begin + gl_SubgroupInvocationID, r.out_ - 1) * r.in_) * 4ul;
    }
    uint i = 0;
    do {
#ifdef FOURS
        const vec4 part = given_four(x, i, kF32);
        [[unroll]] for (uint c = 0; c < kOutputsAcross; ++c) {
            const vec4 weight = given_four(row[c], i, kF32);
            [[unroll]] for (uint k = 0; k < 4; ++k) sum[c] = fma(part[k], weight[k], sum[c]);
        }
#else
        const vec2 part = W == 2 ? load_pair(x, uint64_t(i), kF32) : vec2(load_float(x, uint64_t(i), kF32), 0.0);
        [[unroll]] for (uint c = 0; c < kOutputsAcross; ++c) {
            if (W == 2) {
                const vec2 weight = load_pair(row[c], uint64_t(i), kF32);
                sum[c] = fma(part.y, weight.y, fma(part.x, weight.x, sum[c]));
            } else {
                const float weight = LAYOUT == kInputFirst ? load_consecutive(row[c] + uint64_t(i * r.out_) * 4ul)
                                                           : load_float(row[c], uint64_t(i), kF32);
                sum[c] = fma(part.x, weight, sum[c]);
            }
        }
#endif
        i += W;
    } while (i < r.in_);
    [[unroll]] for (uint c = 0; c < kOutputsAcross; ++c) {
        const uint n = first + c * S + gl_SubgroupInvocationID;
        if (n < r.out_) store_float(y, uint64_t(n), chosen ? sum[c] : 0.0, kF32);
    }
}

void main() {
    FewRecord r = record;
    HEKLA_GROUP(group, r)
    const uint token = group / r.blocks;
    const int choice = load_int(r.choice, uint64_t(token / r.tokens));
    const bool chosen = choice >= 0 && choice < int(r.matrices);
    // Products of 32 bits: tensors have less than 2^31 elements, and NVK does not compile those of 64 bits.
    const uint64_t matrix = r.weights + uint64_t((chosen ? uint(choice) : 0u) * (r.in_ * r.out_)) * 4ul;
    const uint64_t x = r.x + uint64_t(token * r.x_stride) * 4ul;
    const uint64_t y = r.y + uint64_t(token * r.out_) * 4ul;
    if (LAYOUT == kAlongInputs)
        along_inputs(r, x, matrix, y, group % r.blocks * kOutputsAlong, chosen);
    else
        across_outputs(r, x, matrix, y, group % r.blocks * kOutputsAcross * S, chosen);
}
