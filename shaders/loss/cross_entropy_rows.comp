#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant 16 STORAGE16
// Cross entropy of long rows of logits (LOSS), its gradient (GRADIENT), or both in one, on a CPU: one subgroup per row.
// Lanes keep running maxima and sums as in cross_entropy.comp. Logits and their gradients, which may be the same memory,
// are of type TYPE.
#include "common.glsl"
#include "lanes.glsl"
#include "math.glsl"
#include "loss/record.h"

layout(constant_id = 1) const uint WEIGHTS = 0;
layout(constant_id = 2) const uint SMOOTHING = 0;
layout(constant_id = 3) const uint BEST = 0; // whether to compute the first index of the largest logit
layout(constant_id = 4) const uint LOSS = 0;
layout(constant_id = 5) const uint GRADIENT = 0;
layout(constant_id = 6) const uint TYPE = 0;
layout(constant_id = 7) const uint SCALED = 0;
layout(constant_id = 8) const uint SOFTCAP = 0;

#include "loss/gradient.glsl"
#include "loss/softcap.glsl"

PUSH_RECORD(CrossEntropyRowsRecord);

const uint W = 2;

// Loads a lane's share of `width` numbers, a row of logits (which has room up to an even number) or the class weights.
vec2 load_logits(CrossEntropyRowsRecord r, uint64_t row, uint base, uint width, float other) {
    vec2 v = load_part_of(row, base, width + (width & 1), W, other, TYPE);
    v = vec2(capped(r, v.x), capped(r, v.y));
    HEKLA_SHARE(at, base, W)
    return vec2(at < width ? v.x : other, second(at) < width ? v.y : other);
}
vec2 load_weights(uint64_t weights, uint base, uint width) {
    HEKLA_SHARE(at, base, W)
    return vec2(at < width ? load_float(weights, uint64_t(at), kF32) : 0.0,
                second(at) < width ? load_float(weights, uint64_t(second(at)), kF32) : 0.0);
}

void main() {
    CrossEntropyRowsRecord r = record;
    HEKLA_GROUP(row, r)
    const uint width = r.width;
    const uint64_t x = r.logits + uint64_t(row * r.stride) * bytes_of(TYPE);
    const int label = load_int(r.labels, uint64_t(row));
    CrossEntropyRow values;
    values.label = uint(clamp(label, 0, int(width) - 1));
    values.scale = 0.0;
    if (GRADIENT != 0 && label != r.ignore) values.scale = load_float(r.dloss, uint64_t(row * r.dloss_stride), kF32);
    if (SCALED != 0) values.scale *= r.scale;
    values.label_weight = WEIGHTS != 0 ? load_float(r.weights, uint64_t(values.label), kF32) : 1.0;
    values.weights = float(width);
    values.smoothing = r.smoothing;
    values.classes = float(width);
    if (SMOOTHING != 0 && WEIGHTS != 0) {
        float sum = 0.0;
        HEKLA_EACH_SHARE(i, width, W, {
            const vec2 w = load_weights(r.weights, i, width);
            sum += w.x + w.y;
        })
        values.weights = lanes_sum(sum);
    }
    if (LOSS != 0) {
        float lane_max = -kInfinity;
        float sum = 0.0;
        float linear = 0.0; // sum of w v
        float own = 0.0;    // the label's logit, in one lane
        uint place = 0;
        HEKLA_EACH_SHARE(i, width, W, {
            const vec2 v = load_logits(r, x, i, width, -kInfinity);
            HEKLA_SHARE(at, i, W)
            if (at == values.label) own = v.x;
            if (second(at) == values.label) own = v.y;
            if (BEST != 0) {
                if (v.x > lane_max) place = at;
                if (v.y > max(lane_max, v.x)) place = second(at);
            }
            const float new_max = max(lane_max, max(v.x, v.y));
            // While all logits are -inf, differences are relative to 0, to avoid -inf - -inf.
            const float from = new_max == -kInfinity ? 0.0 : new_max;
            sum = sum * exp_(lane_max - from) + exp_(v.x - from) + exp_(v.y - from);
            lane_max = new_max;
            if (SMOOTHING != 0) {
                const vec2 w = WEIGHTS != 0 ? load_weights(r.weights, i, width) : vec2(1.0);
                if (at < width) linear += w.x * v.x;
                if (second(at) < width) linear += w.y * v.y;
            }
        })
        values.largest = lanes_max(lane_max);
        const float from = values.largest == -kInfinity ? 0.0 : values.largest;
        values.log_sum = log_(lanes_sum(sum * exp_(lane_max - from)));
        float loss = values.label_weight * ((values.largest - lanes_sum(own)) + values.log_sum);
        if (SMOOTHING != 0) {
            const float all = values.weights * (values.largest + values.log_sum) - lanes_sum(linear);
            loss = (1.0 - r.smoothing) * loss + r.smoothing / values.classes * all;
        }
        float best = 0.0;
        if (BEST != 0) best = -lanes_max(lane_max == values.largest ? -float(place) : -kInfinity);
        if (gl_SubgroupInvocationID == 0) {
            store_float(r.loss, uint64_t(row), label == r.ignore ? 0.0 : loss, kF32);
            if (GRADIENT == 0) {
                store_float(r.lse, uint64_t(row) * 2, values.largest, kF32);
                store_float(r.lse, uint64_t(row) * 2 + 1, values.log_sum, kF32);
            }
            if (BEST != 0) store_int(r.best, uint64_t(row), int(min(best, values.classes - 1.0)));
        }
    } else {
        values.largest = load_float(r.lse, uint64_t(row) * 2, kF32);
        values.log_sum = load_float(r.lse, uint64_t(row) * 2 + 1, kF32);
    }
    if (GRADIENT != 0) {
        const uint64_t dx = r.dlogits + uint64_t(row * r.stride) * bytes_of(TYPE);
        HEKLA_EACH_SHARE(i, width, W, {
            const vec2 v = load_logits(r, x, i, width, -kInfinity);
            HEKLA_SHARE(at, i, W)
            vec2 w = vec2(1.0);
            if (SMOOTHING != 0 && WEIGHTS != 0) w = load_weights(r.weights, i, width);
            const vec2 d = cross_entropy_gradient(values, v, at, second(at), w);
            store_part_of(dx, i, width + (width & 1), W, gradient_of_capped(r, values, d, v), TYPE);
        })
    }
}
