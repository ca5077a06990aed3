#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant 16 STORAGE16
// dx of layer norm and RMS norm: with g = dy gain and n the normalized x,
// dx = inverse deviation * (g - mean(g) - n mean(g n)), with mean(g) only if a mean was subtracted.
#include "common.glsl"
#include "lanes.glsl"
#include "norm/record.h"

layout(constant_id = 1) const uint W = 1;
layout(constant_id = 2) const uint RMS = 0;
layout(constant_id = 3) const uint GAIN = 0;
layout(constant_id = 4) const uint TYPE = 0; // of dy

PUSH_RECORD(GradientRecord);

void main() {
    GradientRecord r = record;
    HEKLA_GROUP(group, r)
    const uint width = r.width;
    const uint64_t gain = r.gain;
    HEKLA_EACH_ROW(row, group, r.rows, {
        const uint64_t x = r.x + uint64_t(row) * r.x_stride * 4ul;
        const uint64_t dy = r.dy + uint64_t(row) * r.dy_stride * bytes_of(TYPE);
        const uint64_t dx = r.dx + uint64_t(row) * width * 4ul;
        const float mean = RMS == 0 ? load_float(r.mean, uint64_t(row), kF32) : 0.0;
        const float inverse = load_float(r.inverse, uint64_t(row), kF32);
        vec2 sum = vec2(0.0);
        vec2 product = vec2(0.0);
        HEKLA_EACH_SHARE(i, width, W, {
            vec2 g = load_part_of(dy, i, width, W, 0.0, TYPE);
            if (GAIN != 0) g *= load_part(gain, i, width, W, 0.0);
            sum += g;
            product += g * (load_part(x, i, width, W, mean) - mean);
        })
        const float mean_g = RMS == 0 ? lanes_sum(sum.x + sum.y) / float(width) : 0.0;
        const float mean_gn = lanes_sum(product.x + product.y) * inverse / float(width);
        HEKLA_EACH_SHARE(i, width, W, {
            vec2 g = load_part_of(dy, i, width, W, 0.0, TYPE);
            if (GAIN != 0) g *= load_part(gain, i, width, W, 0.0);
            vec2 n = (load_part(x, i, width, W, mean) - mean) * inverse;
            store_part(dx, i, width, W, inverse * (g - mean_g - n * mean_gn));
        })
    })
}
