#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant 16 STORAGE16
//! variant fours FOURS
//! variant fours_16 FOURS STORAGE16
// A row's sum, maximum, log-sum-exp or first index of its maximum, one subgroup per row. Rows are dense. A long row is split
// into chunks, whose results a second dispatch reduces.
#include "common.glsl"
#include "lanes.glsl"
#include "math.glsl"
#include "reduce/record.h"

layout(constant_id = 1) const uint W = 1;
layout(constant_id = 2) const uint REDUCTION = kSum;
layout(constant_id = 3) const uint TYPE = 0; // of x, if it is a sum

PUSH_RECORD(RowsRecord);

void main() {
    RowsRecord r = record;
    HEKLA_GROUP(group, r)
    HEKLA_EACH_ROW(row, group, r.rows * r.chunks, {
        const uint from = (row % r.chunks) * r.chunk;
        const uint width = min(r.chunk, r.width - from);
        const uint64_t x = r.x + (uint64_t(row / r.chunks) * r.stride + from) * bytes_of(TYPE);
        float y = 0.0;
        if (REDUCTION == kSum) {
            PART sum = PART(0.0);
            HEKLA_EACH_SHARE(i, width, W, { sum += load_part_of(x, i, width, W, 0.0, TYPE); })
            y = lanes_sum(sum_of(sum)) * r.factor;
        } else {
            float lane_max = -kInfinity;
            uint place = 0;
            bool bad = false;
            HEKLA_EACH_SHARE(i, width, W, {
                const PART v = load_part(x, i, width, W, -kInfinity);
                // The first maximum of this lane; a lane's indices increase.
                HEKLA_SHARE(own, i, W)
                [[unroll]] for (uint c = 0; c < kPart; ++c) {
                    bad = bad || is_nan(v[c]);
                    if (v[c] > lane_max) { lane_max = v[c]; place = element_of(own, c); }
                }
            })
            const float row_max = lanes_max(lane_max);
            const bool any_bad = lanes_max(bad ? 1.0 : 0.0) > 0.0;
            y = any_bad ? kNaN : row_max;
            if (REDUCTION == kLogSumExp) {
                const float base = row_max == -kInfinity || row_max == kInfinity ? 0.0 : row_max;
                PART sum = PART(0.0);
                HEKLA_EACH_SHARE(i, width, W, {
                    const PART v = load_part(x, i, width, W, -kInfinity) - base;
                    [[unroll]] for (uint c = 0; c < kPart; ++c) sum[c] += exp_(v[c]);
                })
                const float total = lanes_sum(sum_of(sum));
                y = row_max == kInfinity ? row_max : base + log_(total);
            }
            if (REDUCTION == kArgmax) y = -lanes_max(lane_max == row_max ? -float(place) : -kInfinity);
        }
        if (gl_SubgroupInvocationID == 0) {
            if (REDUCTION == kArgmax) store_int(r.y, uint64_t(row), int(y));
            else store_float(r.y, uint64_t(row), y, kF32);
        }
    })
}
