#version 450
#extension GL_GOOGLE_include_directive : require
// Packs a mask of int32 into bits: bit j % 32 of a row's word j / 32 tells whether key j is allowed. A word per
// invocation.
#include "common.glsl"
#include "attention/record.h"

PUSH_RECORD(MaskRecord);

layout(local_size_x = 64) in;

void main() {
    MaskRecord r = record;
    HEKLA_GROUP(group, r)
    const uint at = min(group * 64 + gl_LocalInvocationID.x, r.rows * r.words - 1);
    const uint row = at / r.words, first = at % r.words * 32;
    uint bits = 0, n = 0;
    do {
        const uint j = first + n;
        const bool allowed = load_int(r.mask, uint64_t(row) * r.keys + min(j, r.keys - 1)) != 0;
        if (allowed && j < r.keys) bits |= 1u << n;
    } while (++n < 32);
    if (group * 64 + gl_LocalInvocationID.x < r.rows * r.words) store_int(r.bits, uint64_t(at), int(bits));
}
