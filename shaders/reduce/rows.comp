#version 450
#extension GL_GOOGLE_include_directive : require
// A row's sum, maximum, log-sum-exp or first place of its maximum, a subgroup a row; rows dense, `chunks` of a row apart
// where it is long (their results are reduced by a second dispatch).
#include "common.glsl"
#include "lanes.glsl"
#include "math.glsl"
#include "reduce/record.h"

layout(constant_id = 1) const uint W = 1;
layout(constant_id = 2) const uint REDUCTION = kSum;

PUSH_RECORD(RowsRecord);

void main() {
    RowsRecord r = record;
    HEKLA_GROUP(group, r)
    HEKLA_EACH_ROW(row, group, r.rows * r.chunks, {
        const uint from = (row % r.chunks) * r.chunk;
        const uint width = min(r.chunk, r.width - from);
        const uint64_t x = r.x + (uint64_t(row / r.chunks) * r.stride + from) * 4ul;
        float y = 0.0;
        if (REDUCTION == kSum) {
            vec2 sum = vec2(0.0);
            HEKLA_EACH_SHARE(i, width, W, { sum += load_part(x, i, width, W, 0.0); })
            y = lanes_sum(sum.x + sum.y) * r.factor;
        } else {
            float most = -kInfinity;
            uint place = 0;
            bool bad = false;
            HEKLA_EACH_SHARE(i, width, W, {
                vec2 v = load_part(x, i, width, W, -kInfinity);
                bad = bad || is_nan(v.x) || is_nan(v.y);
                // The first maximum of this lane; a lane's places rise.
                HEKLA_SHARE(own, i, W)
                if (v.x > most) { most = v.x; place = own; }
                if (v.y > most) { most = v.y; place = second(own); }
            })
            const float top = lanes_max(most);
            const bool any_bad = lanes_max(bad ? 1.0 : 0.0) > 0.0;
            y = any_bad ? kNaN : top;
            if (REDUCTION == kLogSumExp) {
                const float base = top == -kInfinity || top == kInfinity ? 0.0 : top;
                vec2 sum = vec2(0.0);
                HEKLA_EACH_SHARE(i, width, W, {
                    vec2 v = load_part(x, i, width, W, -kInfinity) - base;
                    sum += vec2(exp_(v.x), exp_(v.y));
                })
                const float total = lanes_sum(sum.x + sum.y);
                y = top == kInfinity ? top : base + log_(total);
            }
            if (REDUCTION == kArgmax) y = -lanes_max(most == top ? -float(place) : -kInfinity);
        }
        if (gl_SubgroupInvocationID == 0) {
            if (REDUCTION == kArgmax) store_int(r.y, uint64_t(row), int(y));
            else store_float(r.y, uint64_t(row), y, kF32);
        }
    })
}
