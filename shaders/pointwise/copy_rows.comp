#version 450
#extension GL_GOOGLE_include_directive : require
// Copies rows that are dense in both of two strided views, for drivers with uniform_loads: one subgroup, the whole
// workgroup, per row.
#include "common.glsl"
#include "lanes.glsl"
#include "pointwise/record.h"

layout(constant_id = 1) const uint W = 2;
layout(constant_id = 2) const uint RANK = 5; // dimensions outside the rows

PUSH_RECORD(CopyRowsRecord);

void main() {
    CopyRowsRecord r = record;
    HEKLA_GROUP(group, r)
    HEKLA_EACH_ROW(row, group, r.rows, {
        uint rest = row;
        uint from = r.first;
        uint to = 0;
        [[unroll]] for (int d = int(RANK) - 1; d >= 0; --d) {
            const uint c = rest % r.dims[d];
            rest /= r.dims[d];
            from += c * uint(r.from_strides[d]);
            to += c * uint(r.to_strides[d]);
        }
        HEKLA_EACH_SHARE(i, r.width, W, {
            store_part(r.to + uint64_t(to) * 4ul, i, r.width, W, load_part(r.from + uint64_t(from) * 4ul, i, r.width, W, 0.0));
        })
    })
}
