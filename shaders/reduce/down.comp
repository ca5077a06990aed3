#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant 16 STORAGE16
//! variant fours FOURS
//! variant fours_16 FOURS STORAGE16
// Sums of columns: dense rows [rows, count], `stride` apart, into [chunks, count]. Lanes along columns, W elements per
// load; four rows per iteration, each with its own sum, added at the end of the chunk. For gradients of biases and of
// broadcast tensors. With `chunks` above 1, a second dispatch adds them.
#include "common.glsl"
#include "lanes.glsl"
#include "reduce/record.h"

layout(constant_id = 1) const uint W = 1;
layout(constant_id = 2) const uint TYPE = 0; // of x

PUSH_RECORD(DownRecord);

void main() {
    DownRecord r = record;
    HEKLA_GROUP(group, r)
    const uint part = group / r.column_groups;
    const uint i = (group - part * r.column_groups) * S * W;
    const uint last = r.rows - 1;
    uint row = part * r.chunk;
    const uint end = min(row + r.chunk, r.rows);
    PART sum[4];
    [[unroll]] for (uint u = 0; u < 4; ++u) sum[u] = PART(0.0);
    do {
        [[unroll]] for (uint u = 0; u < 4; ++u) {
            const uint64_t from = r.x + uint64_t(min(row + u, last) * r.stride) * bytes_of(TYPE);
            const PART v = load_part_of(from, i, r.count, W, 0.0, TYPE);
            sum[u] += row + u < end ? v : PART(0.0);
        }
        row += 4;
    } while (row < end);
    const PART total = ((sum[0] + sum[1]) + (sum[2] + sum[3])) * r.factor;
    store_part(r.y + uint64_t(part) * r.count * 4ul, i, r.count, W, total);
}
