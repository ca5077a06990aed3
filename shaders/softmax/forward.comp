#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant fours FOURS
// Softmax and log softmax of rows, one subgroup per row. On GPUs the row is read once, to registers.
#include "common.glsl"
#include "lanes.glsl"
#include "math.glsl"
#include "softmax/record.h"

layout(constant_id = 1) const uint W = 1;
layout(constant_id = 2) const uint LOGARITHM = 0;
layout(constant_id = 3) const uint HELD = 0;

PUSH_RECORD(ForwardRecord);

PART exp_of(PART x) {
    [[unroll]] for (uint c = 0; c < kPart; ++c) x[c] = exp_(x[c]);
    return x;
}

void main() {
    ForwardRecord r = record;
    HEKLA_GROUP(group, r)
    const uint width = r.width;
    HEKLA_EACH_ROW(row, group, r.rows, {
        const uint64_t x = r.x + uint64_t(row) * r.stride * 4ul;
        const uint64_t y = r.y + uint64_t(row) * width * 4ul;
        HEKLA_HOLD(held, x, width, W, HELD)
        PART lane_max = PART(-kInfinity);
        HEKLA_EACH_PART(v, held, x, i, width, W, HELD, -kInfinity, { lane_max = max(lane_max, v); })
        const float row_max = lanes_max(max_of(lane_max));
        PART sum = PART(0.0);
        HEKLA_EACH_PART(v, held, x, i, width, W, HELD, -kInfinity, { sum += exp_of(v - row_max); })
        const float total = lanes_sum(sum_of(sum));
        const float factor = 1.0 / total;
        const float logarithm = LOGARITHM != 0 ? log_(total) : 0.0;
        HEKLA_EACH_PART(v, held, x, i, width, W, HELD, -kInfinity, {
            const PART d = v - row_max;
            store_part(y, i, width, W, LOGARITHM != 0 ? d - logarithm : exp_of(d) * factor);
        })
    })
}
