#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant fours FOURS
// Joins the rows of dy with the same id, its segment, in the order of the tokens, and stores them in that id's row of
// dtable by MODE; the other rows are not written. A workgroup handles one index of the sorted order and S * W * 4 columns; it
// does nothing unless an id begins at that index.
#include "common.glsl"
#include "lanes.glsl"
#include "embedding/record.h"

layout(constant_id = 1) const uint W = 1;
layout(constant_id = 2) const uint MODE = kSumRows;
layout(constant_id = 3) const uint INTEGER = 0; // dy and dtable are int32

PUSH_RECORD(SegmentsRecord);

PART joined(PART a, PART b) {
    if (INTEGER != 0) return intBitsToFloat(floatBitsToInt(a) + floatBitsToInt(b));
    return a + b;
}

void main() {
    SegmentsRecord r = record;
    HEKLA_GROUP(group, r)
    const uint width = r.width, count = r.count;
    const uint first = (group % r.column_groups) * S * W * 4;
    const uint place = (group / r.column_groups) % count;
    const uint batch = group / r.column_groups / count;
    const uint64_t ids = r.ids + uint64_t(batch) * count * 4ul;
    const uint64_t order = r.order + uint64_t(batch) * count * 4ul;
    uint token = uint(load_int(order, uint64_t(place)));
    const int id = load_int(ids, uint64_t(token));
    const int previous = load_int(ids, uint64_t(uint(load_int(order, uint64_t(max(place, 1) - 1)))));
    // The condition is uniform: the whole workgroup returns.
    if ((place > 0 && previous == id) || id == r.no_gradient_id || id < 0 || id >= r.rows) return;
    PART sum[4];
    [[unroll]] for (uint j = 0; j < 4; ++j) sum[j] = PART(0.0);
    uint at = place;
    bool more;
    do {
        const uint64_t row = r.dy + (uint64_t(batch) * count + token) * r.dy_stride * 4ul;
        [[unroll]] for (uint j = 0; j < 4; ++j) {
            const PART part = load_part(row, first + j * S * W, width, W, 0.0);
            sum[j] = MODE == kReplaceRows ? part : joined(sum[j], part);
        }
        ++at;
        token = uint(load_int(order, uint64_t(min(at, count - 1))));
        more = at < count && load_int(ids, uint64_t(token)) == id;
    } while (more);
    const uint64_t to = r.dtable + (uint64_t(batch) * r.batch_rows + uint(id)) * uint64_t(width) * 4ul;
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        if (MODE == kAddRows) sum[j] = joined(sum[j], load_written(to, first + j * S * W, width, W));
        store_part(to, first + j * S * W, width, W, sum[j]);
    }
}
