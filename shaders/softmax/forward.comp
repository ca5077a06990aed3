#version 450
#extension GL_GOOGLE_include_directive : require
// Softmax and log softmax of rows, one subgroup per row.
#include "common.glsl"
#include "lanes.glsl"
#include "math.glsl"
#include "softmax/record.h"

layout(constant_id = 1) const uint W = 1;
layout(constant_id = 2) const uint LOGARITHM = 0;

PUSH_RECORD(ForwardRecord);

void main() {
    ForwardRecord r = record;
    HEKLA_GROUP(group, r)
    const uint width = r.width;
    HEKLA_EACH_ROW(row, group, r.rows, {
        const uint64_t x = r.x + uint64_t(row) * r.stride * 4ul;
        const uint64_t y = r.y + uint64_t(row) * width * 4ul;
        vec2 lane_max = vec2(-kInfinity);
        HEKLA_EACH_SHARE(i, width, W, { lane_max = max(lane_max, load_part(x, i, width, W, -kInfinity)); })
        const float row_max = lanes_max(max(lane_max.x, lane_max.y));
        vec2 sum = vec2(0.0);
        HEKLA_EACH_SHARE(i, width, W, {
            vec2 d = load_part(x, i, width, W, -kInfinity) - row_max;
            sum += vec2(exp_(d.x), exp_(d.y));
        })
        const float total = lanes_sum(sum.x + sum.y);
        const float factor = 1.0 / total;
        const float logarithm = LOGARITHM != 0 ? log_(total) : 0.0;
        HEKLA_EACH_SHARE(i, width, W, {
            vec2 d = load_part(x, i, width, W, -kInfinity) - row_max;
            store_part(y, i, width, W, LOGARITHM != 0 ? d - logarithm : vec2(exp_(d.x), exp_(d.y)) * factor);
        })
    })
}
