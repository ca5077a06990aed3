#version 450
#extension GL_GOOGLE_include_directive : require
// dx = y (dy - sum(y dy)) of rows, one subgroup per row.
#include "common.glsl"
#include "lanes.glsl"
#include "softmax/record.h"

layout(constant_id = 1) const uint W = 1;

PUSH_RECORD(GradientRecord);

void main() {
    GradientRecord r = record;
    HEKLA_GROUP(group, r)
    const uint width = r.width;
    HEKLA_EACH_ROW(row, group, r.rows, {
        const uint64_t dy = r.dy + uint64_t(row) * r.dy_stride * 4ul;
        const uint64_t y = r.y + uint64_t(row) * r.y_stride * 4ul;
        const uint64_t dx = r.dx + uint64_t(row) * width * 4ul;
        vec2 sum = vec2(0.0);
        HEKLA_EACH_SHARE(i, width, W,
                         { sum += load_part(y, i, width, W, 0.0) * load_part(dy, i, width, W, 0.0); })
        const float total = lanes_sum(sum.x + sum.y);
        HEKLA_EACH_SHARE(i, width, W, {
            store_part(dx, i, width, W, load_part(y, i, width, W, 0.0) * (load_part(dy, i, width, W, 0.0) - total));
        })
    })
}
