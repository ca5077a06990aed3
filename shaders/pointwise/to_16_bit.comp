#version 450
#extension GL_GOOGLE_include_directive : require
// float32 to 16 bits, dense tensors: a subgroup converts kElementsPerGroup elements of one; a lane stores two neighbors as
// one word.
#include "common.glsl"
#include "half.glsl"
#include "pointwise/record.h"

layout(constant_id = 0) const uint S = 8;
layout(constant_id = 1) const uint TYPE = 1; // of the result
layout(local_size_x_id = 0) in;

PUSH_RECORD(To16BitRecord);

void main() {
    HEKLA_GROUP(group, record)
    uint tensor = 0;
    while (tensor < kTensorsAtOnce - 1 && group >= record.ends[tensor]) ++tensor;
    const uint own = group - (tensor == 0 ? 0 : record.ends[tensor - 1]);
    const uint64_t from = record.from[tensor], to = record.to[tensor];
    const uint words = record.words[tensor];
    uint turn = 0;
    do {
        const uint word = own * (kElementsPerGroup / 2) + turn + gl_LocalInvocationID.x;
        const uint at = min(word, words - 1);
        const vec2 x = load_pair(from, uint64_t(at) * 2ul, kF32);
        const uint both = pack_half(TYPE, x.x) | (pack_half(TYPE, x.y) << 16);
        if (word < words) Words(to + uint64_t(at) * 4ul).v[0] = both;
        turn += S;
    } while (turn < kElementsPerGroup / 2);
}
