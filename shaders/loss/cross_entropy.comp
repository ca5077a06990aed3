#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant fours FOURS
// Cross entropy of rows of logits with int32 labels, and their log-sum-exp; one subgroup per row. One pass: every lane
// keeps a running maximum and the sum of exp(logit - maximum). The two parts of the log-sum-exp are stored separately:
// if the label is by far the most likely, loss and gradient are small compared with their sum, which would round them
// away.
#include "common.glsl"
#include "lanes.glsl"
#include "math.glsl"
#include "loss/record.h"

layout(constant_id = 1) const uint W = 1;
layout(constant_id = 2) const uint WEIGHTS = 0;
layout(constant_id = 3) const uint SMOOTHING = 0;

PUSH_RECORD(CrossEntropyRecord);

void main() {
    CrossEntropyRecord r = record;
    HEKLA_GROUP(group, r)
    const uint width = r.width;
    HEKLA_EACH_ROW(row, group, r.rows, {
        const uint64_t x = r.logits + uint64_t(row) * r.stride * 4ul;
        float lane_max = -kInfinity;
        float sum = 0.0;
        vec2 linear = vec2(0.0); // sums of w and of w x
        HEKLA_EACH_SHARE(i, width, W, {
            const PART v = load_part(x, i, width, W, -kInfinity);
            const float new_max = max(lane_max, max_of(v));
            // While all logits are -inf, differences are relative to 0, to avoid -inf - -inf.
            const float from = new_max == -kInfinity ? 0.0 : new_max;
            sum *= exp_(lane_max - from);
            [[unroll]] for (uint c = 0; c < kPart; ++c) sum += exp_(v[c] - from);
            lane_max = new_max;
            if (SMOOTHING != 0) {
                const PART w = WEIGHTS != 0 ? load_part(r.weights, i, width, W, 0.0) : PART(1.0);
                HEKLA_SHARE(at, i, W)
                [[unroll]] for (uint c = 0; c < kPart; ++c)
                    if (element_of(at, c) < width && c < W) linear += vec2(w[c], w[c] * v[c]);
            }
        })
        const float row_max = lanes_max(lane_max);
        const float from = row_max == -kInfinity ? 0.0 : row_max;
        const float log_sum = log_(lanes_sum(sum * exp_(lane_max - from)));
        const float lse = row_max + log_sum;
        const int label = load_int(r.labels, uint64_t(row));
        const uint at = uint(clamp(label, 0, int(width) - 1));
        const float w = WEIGHTS != 0 ? load_float(r.weights, uint64_t(at), kF32) : 1.0;
        float loss = w * ((row_max - load_float(x, uint64_t(at), kF32)) + log_sum);
        if (SMOOTHING != 0) {
            const float all = lanes_sum(linear.x) * lse - lanes_sum(linear.y);
            loss = (1.0 - r.smoothing) * loss + r.smoothing / float(width) * all;
        }
        if (gl_SubgroupInvocationID == 0) {
            store_float(r.loss, uint64_t(row), label == r.ignore ? 0.0 : loss, kF32);
            store_float(r.lse, uint64_t(row) * 2, row_max, kF32);
            store_float(r.lse, uint64_t(row) * 2 + 1, log_sum, kF32);
        }
    })
}
