#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant 16 STORAGE16
// cross_entropy_rows for GPUs: a workgroup of SUBGROUPS subgroups per row, in vectors of four elements. The first HELD
// vectors of each invocation stay in registers, so that the gradient reads only the rest of the row again.
#include "common.glsl"
#include "lanes.glsl"
#include "fours.glsl"
#include "math.glsl"
#include "loss/record.h"

layout(constant_id = 1) const uint WEIGHTS = 0;
layout(constant_id = 2) const uint SMOOTHING = 0;
layout(constant_id = 3) const uint BEST = 0; // whether to compute the first index of the largest logit
layout(constant_id = 4) const uint LOSS = 0;
layout(constant_id = 5) const uint GRADIENT = 0;
layout(constant_id = 6) const uint SUBGROUPS = 1;
layout(constant_id = 7) const uint HELD = 0; // above 0 only with LOSS and GRADIENT
layout(constant_id = 8) const uint TYPE = 0;
layout(constant_id = 9) const uint SCALED = 0;
layout(constant_id = 10) const uint SOFTCAP = 0;
layout(local_size_y_id = 6) in;

#include "loss/gradient.glsl"
#include "loss/softcap.glsl"

PUSH_RECORD(CrossEntropyRowsRecord);

// Loads four logits; -inf past the end of the row. Their gradients may be written in their place, so they are not
// `readonly`.
vec4 load_logits(CrossEntropyRowsRecord r, uint64_t row, uint at, uint width) {
#ifdef STORAGE16
    vec4 x = unpack_four(TYPE, HalfFours(row + at * 2).v);
#else
    vec4 x = uintBitsToFloat(Fours(row + at * 4).v);
#endif
    x = vec4(capped(r, x.x), capped(r, x.y), capped(r, x.z), capped(r, x.w));
    return mix(x, vec4(-kInfinity), greaterThanEqual(at + uvec4(0, 1, 2, 3), uvec4(width)));
}

shared float of_subgroup[SUBGROUPS];
shared float of_label;

float row_sum(float x) {
    x = lanes_sum(x);
    if (SUBGROUPS == 1) return x;
    barrier(); // the last values have been read
    if (gl_SubgroupInvocationID == 0) of_subgroup[gl_SubgroupID] = x;
    barrier();
    x = of_subgroup[0];
    for (uint i = 1; i < SUBGROUPS; ++i) x += of_subgroup[i];
    return x;
}
float row_max(float x) {
    x = lanes_max(x);
    if (SUBGROUPS == 1) return x;
    barrier();
    if (gl_SubgroupInvocationID == 0) of_subgroup[gl_SubgroupID] = x;
    barrier();
    x = of_subgroup[0];
    for (uint i = 1; i < SUBGROUPS; ++i) x = max(x, of_subgroup[i]);
    return x;
}

vec4 load_weights(uint64_t weights, uint at, uint width) {
    vec4 w;
    [[unroll]] for (uint c = 0; c < 4; ++c)
        w[c] = at + c < width ? load_float(weights, uint64_t(min(at + c, width - 1)), kF32) : 0.0;
    return w;
}

// Runs `body` for this invocation's vectors of a row from vector `first` on; `at`: the first element.
#define EACH_FOUR(at, first, width, body)                                                                              \
    for (uint at = ((first) * kTeam + own) * 4; at < (width); at += kTeam * 4) { body }

const uint kTeam = S * SUBGROUPS; // invocations of a row

// What an invocation knows about its part of a row.
struct Seen {
    float largest;
    uint place;   // of the largest
    float linear; // sum of w v, with SMOOTHING
};

void see(inout Seen seen, vec4 v, uint at, CrossEntropyRowsRecord r) {
    if (BEST != 0) {
        [[unroll]] for (uint c = 0; c < 4; ++c)
            if (v[c] > seen.largest) {
                seen.largest = v[c];
                seen.place = at + c;
            }
    }
    seen.largest = max(seen.largest, max_of(v));
    if (SMOOTHING != 0) {
        const vec4 w = WEIGHTS != 0 ? load_weights(r.weights, at, r.width) : vec4(1.0);
        [[unroll]] for (uint c = 0; c < 4; ++c) seen.linear += at + c < r.width ? w[c] * v[c] : 0.0;
    }
}

// While all logits are -inf, differences are relative to 0, to avoid -inf - -inf.
float base_of(float largest) { return largest == -kInfinity ? 0.0 : largest; }
float sum_of_exp(vec4 v, float base) {
    v -= base;
    return sum_of(vec4(exp_(v.x), exp_(v.y), exp_(v.z), exp_(v.w)));
}

void store_gradient(CrossEntropyRowsRecord r, CrossEntropyRow values, uint64_t row, vec4 v, uint at) {
    vec4 w = vec4(1.0);
    if (SMOOTHING != 0 && WEIGHTS != 0) w = load_weights(r.weights, at, r.width);
    const vec2 first = cross_entropy_gradient(values, v.xy, at, at + 1, w.xy);
    const vec2 next = cross_entropy_gradient(values, v.zw, at + 2, at + 3, w.zw);
    store_four(row, at,
               vec4(gradient_of_capped(r, values, first, v.xy), gradient_of_capped(r, values, next, v.zw)), TYPE);
}

void main() {
    CrossEntropyRowsRecord r = record;
    HEKLA_GROUP(row, r)
    const uint width = r.width;
    const uint own = gl_SubgroupID * S + gl_SubgroupInvocationID;
    const uint last = (width - 1) / 4 * 4; // a row has room for whole vectors
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
        EACH_FOUR(at, 0, width, { sum += sum_of(load_weights(r.weights, at, width)); })
        values.weights = row_sum(sum);
    }
    vec4 held[HELD == 0 ? 1 : HELD];
    [[unroll]] for (uint p = 0; p < HELD; ++p) {
        const uint at = (p * kTeam + own) * 4;
        held[p] = load_logits(r, x, min(at, last), at <= last ? width : 0);
    }
    if (LOSS != 0) {
        // In memory of the workgroup before a gradient is written in its place.
        if (own == 0) of_label = capped(r, load_float(x, uint64_t(values.label), TYPE));
        barrier();
        Seen seen = Seen(-kInfinity, 0, 0.0);
        [[unroll]] for (uint p = 0; p < HELD; ++p) see(seen, held[p], (p * kTeam + own) * 4, r);
        float sum = 0.0; // of exp(logit - largest seen) of what is not held
        EACH_FOUR(at, HELD, width, {
            const vec4 v = load_logits(r, x, at, width);
            const float before = seen.largest;
            see(seen, v, at, r);
            const float base = base_of(seen.largest);
            sum = sum * exp_(before - base) + sum_of_exp(v, base);
        })
        values.largest = row_max(seen.largest);
        const float base = base_of(values.largest);
        sum *= exp_(seen.largest - base);
        [[unroll]] for (uint p = 0; p < HELD; ++p)
            sum += sum_of_exp(held[p], base);
        values.log_sum = log_(row_sum(sum));
        float loss = values.label_weight * ((values.largest - of_label) + values.log_sum);
        if (SMOOTHING != 0) {
            const float all = values.weights * (values.largest + values.log_sum) - row_sum(seen.linear);
            loss = (1.0 - r.smoothing) * loss + r.smoothing / values.classes * all;
        }
        float best = 0.0;
        if (BEST != 0) best = -row_max(seen.largest == values.largest ? -float(seen.place) : -kInfinity);
        if (own == 0) {
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
        [[unroll]] for (uint p = 0; p < HELD; ++p) {
            const uint at = (p * kTeam + own) * 4;
            if (at < width) store_gradient(r, values, dx, held[p], at);
        }
        EACH_FOUR(at, HELD, width, { store_gradient(r, values, dx, load_logits(r, x, at, width), at); })
    }
}
