#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant 16 STORAGE16
// Stores new keys and values (i < count[b], at position start[b] + i) in the cache. A subgroup stores a row of
// [B, Hkv, chunk].
#include "common.glsl"
#include "lanes.glsl"
#include "attention/record.h"

PUSH_RECORD(CachedRecord);

layout(constant_id = 1) const uint D = 32;
layout(constant_id = 2) const uint DV = 32;
layout(constant_id = 3) const uint W = 1;
layout(constant_id = 4) const uint TYPE = 0; // of the cache

void main() {
    CachedRecord r = record;
    HEKLA_GROUP(group, r)
    HEKLA_EACH_ROW(row, group, r.rows, {
        const uint i = row % r.chunk;
        const uint g = row / r.chunk % r.key_heads;
        const uint b = row / r.chunk / r.key_heads;
        const int position = load_int(r.start, uint64_t(b)) + int(i);
        if (int(i) < load_int(r.count, uint64_t(b)) && position >= 0 && position < int(r.capacity)) {
            const uint64_t to = (uint64_t(b) * r.key_heads + g) * r.capacity + uint(position);
            const uint64_t k = r.k + (uint64_t(b) * r.k_b + uint64_t(g) * r.k_h + uint64_t(i) * r.k_t) * 4ul;
            const uint64_t v = r.v + (uint64_t(b) * r.v_b + uint64_t(g) * r.v_h + uint64_t(i) * r.v_t) * 4ul;
            HEKLA_EACH_SHARE(d, D, W, { store_part_of(r.key_cache + to * D * bytes_of(TYPE), d, D, W, load_part(k, d, D, W, 0.0), TYPE); })
            HEKLA_EACH_SHARE(d, DV, W, { store_part_of(r.value_cache + to * DV * bytes_of(TYPE), d, DV, W, load_part(v, d, DV, W, 0.0), TYPE); })
        }
    })
}
