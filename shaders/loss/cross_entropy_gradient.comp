#version 450
#extension GL_GOOGLE_include_directive : require
// dlogits = dloss * ((1 - s) w[label] (p - onehot) + s / V (p sum(w) - w)); a subgroup a row.
#include "common.glsl"
#include "lanes.glsl"
#include "math.glsl"

layout(constant_id = 1) const uint W = 1;
layout(constant_id = 2) const uint WEIGHTS = 0;
layout(constant_id = 3) const uint SMOOTHING = 0;

RECORD(Record) {
    HEKLA_RECORD
    uint64_t dloss, logits, labels, lse, weights, dlogits;
    uint rows, width, stride;
    int ignore;
    float smoothing;
    uint dloss_stride; // 0: one for all rows
};
PUSH_RECORD(Record);

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const uint width = r.width;
    HEKLA_EACH_ROW(row, group, r.rows, {
        const uint64_t x = r.logits + uint64_t(row) * r.stride * 4ul;
        const uint64_t dx = r.dlogits + uint64_t(row) * width * 4ul;
        const float lse = load_float(r.lse, uint64_t(row), kF32);
        const int label = load_int(r.labels, uint64_t(row));
        const uint at = uint(clamp(label, 0, int(width) - 1));
        float scale = load_float(r.dloss, uint64_t(row) * r.dloss_stride, kF32);
        if (label == r.ignore) scale = 0.0;
        float weights = float(width);
        if (SMOOTHING != 0 && WEIGHTS != 0) {
            vec2 sum = vec2(0.0);
            HEKLA_EACH_SHARE(i, width, W, { sum += load_part(r.weights, i, width, W, 0.0); })
            weights = lanes_sum(sum.x + sum.y);
        }
        const float w = WEIGHTS != 0 ? load_float(r.weights, uint64_t(at), kF32) : 1.0;
        const float hard = SMOOTHING != 0 ? (1.0 - r.smoothing) * w : w;
        const float soft = SMOOTHING != 0 ? r.smoothing / float(width) : 0.0;
        HEKLA_EACH_SHARE(i, width, W, {
            vec2 v = load_part(x, i, width, W, 0.0) - lse;
            vec2 p = vec2(exp_(v.x), exp_(v.y));
            HEKLA_SHARE(own, i, W)
            vec2 hit = vec2(own == at ? 1.0 : 0.0, second(own) == at ? 1.0 : 0.0);
            vec2 d = hard * (p - hit);
            if (SMOOTHING != 0) {
                vec2 each = WEIGHTS != 0 ? load_part(r.weights, i, width, W, 0.0) : vec2(1.0);
                d += soft * (p * weights - each);
            }
            // An ignored row gets zeros even where its logits are not finite.
            store_part(dx, i, width, W, scale == 0.0 ? vec2(0.0) : scale * d);
        })
    })
}
