#version 450
#extension GL_GOOGLE_include_directive : require
// order = the positions of ids, sorted by id and, among equal ids, by position: each lane counts the ids that come
// before its own. Quadratic in the number of ids, without atomics. Batches are sorted separately.
#include "common.glsl"
#include "lanes.glsl"
#include "embedding/record.h"

PUSH_RECORD(SortRecord);

void main() {
    SortRecord r = record;
    HEKLA_GROUP(group, r)
    const uint count = r.count;
    const uint64_t offset = uint64_t(group / r.groups_per_batch) * count * 4ul;
    const uint64_t ids = r.ids + offset;
    const uint mine = (group % r.groups_per_batch) * S + gl_SubgroupInvocationID;
    const uint at = min(mine, count - 1);
    const int id = load_int(ids, uint64_t(at));
    uint before = 0;
    uint base = 0;
    do {
        const int share = load_int(ids, uint64_t(min(base + gl_SubgroupInvocationID, count - 1)));
        [[unroll]] for (uint i = 0; i < S; ++i) {
            const int other = subgroupBroadcast(share, i);
            const uint place = base + i;
            if (place < count && (other < id || (other == id && place < at))) ++before;
        }
        base += S;
    } while (base < count);
    if (mine < count) store_int(r.order + offset, uint64_t(before), int(at));
}
