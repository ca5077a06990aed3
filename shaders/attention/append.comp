#version 450
#extension GL_GOOGLE_include_directive : require
// Puts a chunk's new keys and values into the cache: row b's token i at position start[b] + i, for i < count[b].
#include "common.glsl"
#include "lanes.glsl"
#include "attention/cached_record.glsl"

layout(constant_id = 1) const uint D = 32;
layout(constant_id = 2) const uint DV = 32;
layout(constant_id = 3) const uint W = 1;

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    HEKLA_EACH_ROW(row, group, r.batch * r.key_heads * r.chunk, {
        const uint i = row % r.chunk;
        const uint g = (row / r.chunk) % r.key_heads;
        const uint b = row / r.chunk / r.key_heads;
        const int place = load_int(r.start, uint64_t(b)) + int(i);
        const bool live = int(i) < load_int(r.count, uint64_t(b)) && place >= 0 && place < int(r.capacity);
        const uint64_t to = (uint64_t(b) * r.key_heads + g) * r.capacity + uint(clamp(place, 0, int(r.capacity) - 1));
        const uint64_t k = r.k + (uint64_t(b) * r.k_b + uint64_t(g) * r.k_h + uint64_t(i) * r.k_t) * 4ul;
        const uint64_t v = r.v + (uint64_t(b) * r.v_b + uint64_t(g) * r.v_h + uint64_t(i) * r.v_t) * 4ul;
        HEKLA_EACH_SHARE(d, D, W, {
            const vec2 x = load_part(k, d, D, W, 0.0);
            if (live) store_part(r.key_cache + to * D * 4ul, d, D, W, x);
        })
        HEKLA_EACH_SHARE(d, DV, W, {
            const vec2 x = load_part(v, d, DV, W, 0.0);
            if (live) store_part(r.value_cache + to * DV * 4ul, d, DV, W, x);
        })
    })
}
