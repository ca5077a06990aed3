#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant fours FOURS
// Gradient of the cross entropy of stored logits; one subgroup per row.
#include "common.glsl"
#include "lanes.glsl"
#include "math.glsl"
#include "loss/record.h"

layout(constant_id = 1) const uint W = 1;
layout(constant_id = 2) const uint WEIGHTS = 0;
layout(constant_id = 3) const uint SMOOTHING = 0;

#include "loss/gradient.glsl"

PUSH_RECORD(CrossEntropyGradientRecord);

// `at`: the class of the first logit.
PART gradient_of(CrossEntropyRow values, PART v, uint at, PART w) {
    PART d;
    d.xy = cross_entropy_gradient(values, v.xy, at, element_of(at, 1), w.xy);
#ifdef FOURS
    d.zw = cross_entropy_gradient(values, v.zw, at + 2, at + 3, w.zw);
#endif
    return d;
}

void main() {
    CrossEntropyGradientRecord r = record;
    HEKLA_GROUP(group, r)
    const uint width = r.width;
    HEKLA_EACH_ROW(row, group, r.rows, {
        const uint64_t x = r.logits + uint64_t(row) * r.stride * 4ul;
        const uint64_t dx = r.dlogits + uint64_t(row) * width * 4ul;
        const int label = load_int(r.labels, uint64_t(row));
        CrossEntropyRow values;
        values.largest = load_float(r.lse, uint64_t(row) * 2, kF32);
        values.log_sum = load_float(r.lse, uint64_t(row) * 2 + 1, kF32);
        values.label = uint(clamp(label, 0, int(width) - 1));
        values.scale = label == r.ignore ? 0.0 : load_float(r.dloss, uint64_t(row) * r.dloss_stride, kF32);
        values.label_weight = WEIGHTS != 0 ? load_float(r.weights, uint64_t(values.label), kF32) : 1.0;
        values.weights = float(width);
        values.smoothing = r.smoothing;
        values.classes = float(width);
        if (SMOOTHING != 0 && WEIGHTS != 0) {
            PART sum = PART(0.0);
            HEKLA_EACH_SHARE(i, width, W, { sum += load_part(r.weights, i, width, W, 0.0); })
            values.weights = lanes_sum(sum_of(sum));
        }
        HEKLA_EACH_SHARE(i, width, W, {
            const PART v = load_part(x, i, width, W, 0.0);
            HEKLA_SHARE(at, i, W)
            PART w = PART(1.0);
            if (SMOOTHING != 0 && WEIGHTS != 0) w = load_part(r.weights, i, width, W, 0.0);
            store_part(dx, i, width, W, gradient_of(values, v, at, w));
        })
    })
}
