#version 450
#extension GL_GOOGLE_include_directive : require
// float32 to 16 bits, dense: a subgroup converts kElementsPerGroup elements; a lane stores two neighbors as one word.
#include "common.glsl"
#include "half.glsl"
#include "pointwise/record.h"

layout(constant_id = 0) const uint S = 8;
layout(constant_id = 1) const uint TYPE = 1; // of the result
layout(local_size_x_id = 0) in;

PUSH_RECORD(To16BitRecord);

void main() {
    To16BitRecord r = record;
    HEKLA_GROUP(group, r)
    uint turn = 0;
    do {
        const uint word = group * (kElementsPerGroup / 2) + turn + gl_LocalInvocationID.x;
        const uint at = min(word, r.words - 1);
        const vec2 x = load_pair(r.from, uint64_t(at) * 2ul, kF32);
        const uint both = pack_half(TYPE, x.x) | (pack_half(TYPE, x.y) << 16);
        if (word < r.words) Words(r.to + uint64_t(at) * 4ul).v[0] = both;
        turn += S;
    } while (turn < kElementsPerGroup / 2);
}
