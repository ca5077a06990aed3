#version 450
#extension GL_GOOGLE_include_directive : require
// dlogits = dloss * ((1 - s) w[label] (p - onehot) + s / V (p sum(w) - w)); one subgroup per row. With CHUNK for the
// classes from `first` on; dlogits may alias logits.
#include "common.glsl"
#include "lanes.glsl"
#include "math.glsl"
#include "loss/record.h"

layout(constant_id = 1) const uint W = 1;
layout(constant_id = 2) const uint WEIGHTS = 0;
layout(constant_id = 3) const uint SMOOTHING = 0;
layout(constant_id = 4) const uint CHUNK = 0;

PUSH_RECORD(CrossEntropyGradientRecord);

void main() {
    CrossEntropyGradientRecord r = record;
    HEKLA_GROUP(group, r)
    const uint width = r.width;
    const uint classes = CHUNK != 0 ? r.classes : width;
    const uint first = CHUNK != 0 ? r.first : 0;
    HEKLA_EACH_ROW(row, group, r.rows, {
        const uint64_t x = r.logits + uint64_t(row) * r.stride * 4ul;
        const uint64_t dx = r.dlogits + uint64_t(row) * width * 4ul;
        const float row_max = load_float(r.lse, uint64_t(row) * 2, kF32);
        const float log_sum = load_float(r.lse, uint64_t(row) * 2 + 1, kF32);
        const int label = load_int(r.labels, uint64_t(row));
        const uint of_all = uint(clamp(label, 0, int(classes) - 1));
        const uint at = of_all - first; // outside of this chunk if the label is in another one
        float scale = load_float(r.dloss, uint64_t(row) * r.dloss_stride, kF32);
        if (label == r.ignore) scale = 0.0;
        float weights = float(classes);
        if (CHUNK != 0 && SMOOTHING != 0 && WEIGHTS != 0) {
            weights = load_float(r.total, 0ul, kF32);
        } else if (SMOOTHING != 0 && WEIGHTS != 0) {
            vec2 sum = vec2(0.0);
            HEKLA_EACH_SHARE(i, width, W, { sum += load_part(r.weights, i, width, W, 0.0); })
            weights = lanes_sum(sum.x + sum.y);
        }
        const float w = WEIGHTS != 0 ? load_float(r.weights, uint64_t(of_all), kF32) : 1.0;
        const float hard = SMOOTHING != 0 ? (1.0 - r.smoothing) * w : w;
        const float soft = SMOOTHING != 0 ? r.smoothing / float(classes) : 0.0;
        HEKLA_EACH_SHARE(i, width, W, {
            vec2 v = (load_part(x, i, width, W, 0.0) - row_max) - log_sum;
            vec2 p = vec2(exp_(v.x), exp_(v.y));
            HEKLA_SHARE(own, i, W)
            vec2 hit = vec2(own == at ? 1.0 : 0.0, second(own) == at ? 1.0 : 0.0);
            vec2 d = hard * (p - hit);
            if (SMOOTHING != 0) {
                vec2 each = WEIGHTS != 0 ? load_part(r.weights + uint64_t(first) * 4ul, i, width, W, 0.0) : vec2(1.0);
                d += soft * (p * weights - each);
            }
            // An ignored row gets zeros even if its logits are not finite.
            store_part(dx, i, width, W, scale == 0.0 ? vec2(0.0) : scale * d);
        })
    })
}
