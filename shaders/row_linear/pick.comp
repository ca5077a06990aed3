#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant fours FOURS
// to[i] = from[choice[i]]; 0 where the choice is none of them.
#include "common.glsl"
#include "lanes.glsl"
#include "row_linear/record.h"

layout(constant_id = 1) const uint W = 1;

PUSH_RECORD(PickRecord);

void main() {
    PickRecord r = record;
    HEKLA_GROUP(group, r)
    const uint row = group / r.blocks, first = group % r.blocks * r.block;
    const int choice = load_int(r.choice, uint64_t(row));
    const bool chosen = choice >= 0 && choice < int(r.count);
    const uint64_t from = r.from + (uint64_t(chosen ? uint(choice) : 0u) * r.size + first) * 4ul;
    const uint64_t to = r.to + (uint64_t(row) * r.size + first) * 4ul;
    const uint width = min(r.block, r.size - first);
    HEKLA_EACH_SHARE(i, width, W, {
        const PART part = load_part(from, i, width, W, 0.0);
        store_part(to, i, width, W, chosen ? part : PART(0.0));
    })
}
