#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant 16 STORAGE16
//! variant fours FOURS
//! variant fours_16 FOURS STORAGE16
// dx of layer norm and RMS norm: with g = dy gain and n the normalized x,
// dx = inverse deviation * (g - mean(g) - n mean(g n)), with mean(g) only if a mean was subtracted. RESIDUAL: dx is added to
// a gradient of x from elsewhere. COPY: dx is also stored in 16 bits.
#include "common.glsl"
#include "lanes.glsl"
#include "norm/record.h"

layout(constant_id = 1) const uint W = 1;
layout(constant_id = 2) const uint RMS = 0;
layout(constant_id = 3) const uint GAIN = 0;
layout(constant_id = 4) const uint RESIDUAL = 0;
layout(constant_id = 5) const uint TYPE = 0; // of dy
layout(constant_id = 6) const uint COPY = 0; // the copy's type, or 0

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
        const uint64_t residual = r.residual + uint64_t(row) * r.residual_stride * 4ul;
        const float mean = RMS == 0 ? load_float(r.mean, uint64_t(row), kF32) : 0.0;
        const float inverse = load_float(r.inverse, uint64_t(row), kF32);
        PART sum = PART(0.0);
        PART product = PART(0.0);
        HEKLA_EACH_SHARE(i, width, W, {
            PART g = load_part_of(dy, i, width, W, 0.0, TYPE);
            if (GAIN != 0) g *= load_part(gain, i, width, W, 0.0);
            sum += g;
            product += g * (load_part(x, i, width, W, mean) - mean);
        })
        const float mean_g = RMS == 0 ? lanes_sum(sum_of(sum)) / float(width) : 0.0;
        const float mean_gn = lanes_sum(sum_of(product)) * inverse / float(width);
        HEKLA_EACH_SHARE(i, width, W, {
            PART g = load_part_of(dy, i, width, W, 0.0, TYPE);
            if (GAIN != 0) g *= load_part(gain, i, width, W, 0.0);
            PART n = (load_part(x, i, width, W, mean) - mean) * inverse;
            PART y = inverse * (g - mean_g - n * mean_gn);
            if (RESIDUAL != 0) {
                precise PART total = y + load_part(residual, i, width, W, 0.0);
                y = total;
            }
            store_part(dx, i, width, W, y);
            if (COPY != 0) store_part_of(r.copy + uint64_t(row) * width * 2ul, i, width, W, y, COPY);
        })
    })
}
