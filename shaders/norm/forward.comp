#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant 16 STORAGE16
//! variant fours FOURS
//! variant fours_16 FOURS STORAGE16
// Layer norm (Ba et al. 2016) and RMS norm (Zhang and Sennrich 2019) over rows: one subgroup per row, two passes for
// the statistics, so that a large mean does not reduce the precision. On GPUs the row is read once, to registers.
#include "common.glsl"
#include "lanes.glsl"
#include "norm/record.h"

layout(constant_id = 1) const uint W = 1;     // elements per load
layout(constant_id = 2) const uint RMS = 0;   // no mean is subtracted
layout(constant_id = 3) const uint GAIN = 0;
layout(constant_id = 4) const uint BIAS = 0;
layout(constant_id = 5) const uint HELD = 0;
layout(constant_id = 6) const uint TYPE = 0; // of y

PUSH_RECORD(ForwardRecord);

void main() {
    ForwardRecord r = record;
    HEKLA_GROUP(group, r)
    const uint width = r.width;
    const uint64_t x0 = r.x, y0 = r.y, gain = r.gain, bias = r.bias;
    HEKLA_EACH_ROW(row, group, r.rows, {
        const uint64_t x = x0 + uint64_t(row) * r.stride * 4ul;
        const uint64_t y = y0 + uint64_t(row) * width * bytes_of(TYPE);
        HEKLA_HOLD(held, x, width, W, HELD)
        float mean = 0.0;
        if (RMS == 0) {
            PART sum = PART(0.0);
            HEKLA_EACH_PART(v, held, x, i, width, W, HELD, 0.0, { sum += v; })
            mean = lanes_sum(sum_of(sum)) / float(width);
        }
        PART square = PART(0.0);
        HEKLA_EACH_PART(v, held, x, i, width, W, HELD, mean, {
            const PART d = v - mean;
            square += d * d;
        })
        const float inverse = 1.0 / sqrt(lanes_sum(sum_of(square)) / float(width) + r.epsilon);
        HEKLA_EACH_PART(v, held, x, i, width, W, HELD, 0.0, {
            PART n = (v - mean) * inverse;
            if (GAIN != 0) n *= load_part(gain, i, width, W, 0.0);
            if (BIAS != 0) n += load_part(bias, i, width, W, 0.0);
            store_part_of(y, i, width, W, n, TYPE);
        })
        if (gl_SubgroupInvocationID == 0) {
            if (RMS == 0) store_float(r.mean, uint64_t(row), mean, kF32);
            store_float(r.inverse, uint64_t(row), inverse, kF32);
        }
    })
}
