#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant 16 STORAGE16
//! variant fours FOURS
//! variant fours_16 FOURS STORAGE16
// dgain and dbias of layer norm and RMS norm: sums over rows, lanes along columns; each group handles a chunk of the
// rows and S * W * 4 columns. reduce/columns adds the chunks' sums in order.
#include "common.glsl"
#include "lanes.glsl"
#include "norm/record.h"

layout(constant_id = 1) const uint W = 1;
layout(constant_id = 2) const uint RMS = 0;
layout(constant_id = 3) const uint TYPE = 0; // of dy

PUSH_RECORD(GainGradientRecord);

void main() {
    GainGradientRecord r = record;
    HEKLA_GROUP(group, r)
    const uint width = r.width;
    const uint part = group / r.column_groups;
    const uint first = (group % r.column_groups) * S * W * 4;
    PART gain[4];
    PART bias[4];
    [[unroll]] for (uint j = 0; j < 4; ++j) gain[j] = bias[j] = PART(0.0);
    uint row = part * r.chunk;
    const uint end = min(row + r.chunk, r.rows);
    do {
        const uint64_t x = r.x + uint64_t(row) * r.x_stride * 4ul;
        const uint64_t dy = r.dy + uint64_t(row) * r.dy_stride * bytes_of(TYPE);
        const float mean = RMS == 0 ? load_float(r.mean, uint64_t(row), kF32) : 0.0;
        const float inverse = load_float(r.inverse, uint64_t(row), kF32);
        [[unroll]] for (uint j = 0; j < 4; ++j) {
            const uint i = first + j * S * W;
            PART g = load_part_of(dy, i, width, W, 0.0, TYPE);
            gain[j] += g * (load_part(x, i, width, W, mean) - mean) * inverse;
            bias[j] += g;
        }
    } while (++row < end);
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        const uint i = first + j * S * W;
        store_part(r.gain_sums + uint64_t(part) * width * 4ul, i, width, W, gain[j]);
        if (RMS == 0) store_part(r.bias_sums + uint64_t(part) * width * 4ul, i, width, W, bias[j]);
    }
}
