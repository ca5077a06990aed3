#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant fours FOURS
// dx = y (dy - sum(y dy)) of rows, one subgroup per row.
#include "common.glsl"
#include "lanes.glsl"
#include "softmax/record.h"

layout(constant_id = 1) const uint W = 1;
layout(constant_id = 2) const uint HELD = 0;

PUSH_RECORD(GradientRecord);

void main() {
    GradientRecord r = record;
    HEKLA_GROUP(group, r)
    const uint width = r.width;
    HEKLA_EACH_ROW(row, group, r.rows, {
        const uint64_t dy = r.dy + uint64_t(row) * r.dy_stride * 4ul;
        const uint64_t y = r.y + uint64_t(row) * r.y_stride * 4ul;
        const uint64_t dx = r.dx + uint64_t(row) * width * 4ul;
        HEKLA_HOLD(held_y, y, width, W, HELD)
        HEKLA_HOLD(held_dy, dy, width, W, HELD)
        PART sum = PART(0.0);
        HEKLA_EACH_PAIR(a, held_y, y, b, held_dy, dy, i, width, W, HELD, { sum += a * b; })
        const float total = lanes_sum(sum_of(sum));
        HEKLA_EACH_PAIR(a, held_y, y, b, held_dy, dy, i, width, W, HELD, { store_part(dx, i, width, W, a * (b - total)); })
    })
}
