#version 450
#extension GL_GOOGLE_include_directive : require
// y[i] = table[ids[i]]: rows of W-element shares, a subgroup a row. Ids outside the table are taken to its nearest row.
// Batched (gather): row i belongs to batch i / per_batch, whose table begins batch_stride later.
#include "common.glsl"
#include "lanes.glsl"

layout(constant_id = 1) const uint W = 1;

RECORD(Record) {
    HEKLA_RECORD
    uint64_t table, ids, y;
    uint rows, width;
    uint table_rows, table_stride; // elements between rows of the table
    uint per_batch, batch_stride;
};
PUSH_RECORD(Record);

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    HEKLA_EACH_ROW(row, group, r.rows, {
        const uint id = uint(clamp(load_int(r.ids, uint64_t(row)), 0, int(r.table_rows) - 1));
        const uint64_t from =
            r.table + (uint64_t(id) * r.table_stride + uint64_t(row / r.per_batch) * r.batch_stride) * 4ul;
        const uint64_t to = r.y + uint64_t(row) * r.width * 4ul;
        HEKLA_EACH_SHARE(i, r.width, W, { store_part(to, i, r.width, W, load_part(from, i, r.width, W, 0.0)); })
    })
}
