#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
//! no-optimizer
// The speed of multiply-adds of pairs of float16, without matrix units and memory. Sums stay small.
#include "common.glsl"

HK_RECORD(Record) {
    HK_RECORD_HEAD;
    HK_WRITES(sums); // float32, one for each invocation
    HK_U32(iterations);
    HK_F32(factor);
    HK_F32(addend);
};

const uint kPairs = 8, kSteps = 16; // sums of an invocation, multiply-adds of each in an iteration
layout(local_size_x_id = 0) in;
PUSH_RECORD(Record);

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const f16vec2 x = f16vec2(float16_t(r.factor)), y = f16vec2(float16_t(r.addend));
    f16vec2 sum[kPairs];
    [[unroll]] for (uint c = 0; c < kPairs; ++c) sum[c] = f16vec2(float16_t(float(c)));
    uint i = 0;
    do {
        [[unroll]] for (uint step = 0; step < kSteps; ++step)
            [[unroll]] for (uint c = 0; c < kPairs; ++c) sum[c] = fma(sum[c], x, y);
    } while (++i < r.iterations);
    float all = 0.0;
    [[unroll]] for (uint c = 0; c < kPairs; ++c) all += float(sum[c].x) + float(sum[c].y);
    store_float(r.sums, uint64_t(group * gl_WorkGroupSize.x + gl_LocalInvocationID.x), all, kF32);
}
