#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant 16 STORAGE16
//! variant fours FOURS
//! variant fours_16 FOURS STORAGE16
// y[i] = table[ids[i]]: rows of W-element shares, one subgroup per row. Ids outside the table are clamped.
// Batched (gather): row i belongs to batch i / per_batch, whose table begins batch_stride later.
#include "common.glsl"
#include "lanes.glsl"
#include "embedding/record.h"

layout(constant_id = 1) const uint W = 1;
layout(constant_id = 2) const uint TYPE = 0; // of the table

PUSH_RECORD(LookupRecord);

// Copies the elements of the table from `first` on to y's row at `to`.
void copy_row(uint64_t table, uint64_t first, uint64_t to, uint width) {
#if defined(STORAGE16) && !defined(FOURS)
    uint base = 0;
    do {
        const uint i = base + gl_SubgroupInvocationID;
        const float x = load_float(table, first + min(i, width - 1), TYPE);
        if (i < width) store_float(to, uint64_t(i), x, kF32);
        base += S;
    } while (base < width);
#else
    const uint64_t from = table + first * bytes_of(TYPE);
    HEKLA_EACH_SHARE(i, width, W, { store_part(to, i, width, W, load_part_of(from, i, width, W, 0.0, TYPE)); })
#endif
}

void main() {
    LookupRecord r = record;
    HEKLA_GROUP(group, r)
    HEKLA_EACH_ROW(row, group, r.rows, {
        const uint id = uint(clamp(load_int(r.ids, uint64_t(row)), 0, int(r.table_rows) - 1));
        const uint64_t first = uint64_t(id) * r.table_stride + uint64_t(row / r.per_batch) * r.batch_stride;
        const uint64_t to = r.y + uint64_t(row) * r.width * 4ul;
        copy_row(r.table, first, to, r.width);
    })
}
