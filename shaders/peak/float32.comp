#version 450
#extension GL_GOOGLE_include_directive : require
//! no-optimizer
// The speed of float32 multiply-adds without memory: every invocation has 12 sums in registers, none of which waits
// for another, and which differ between invocations.
#include "common.glsl"
#include "peak/record.h"

layout(local_size_x_id = 0) in;
PUSH_RECORD(Record);

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const uint invocation = gl_LocalInvocationID.x;
    const vec4 x = vec4(r.factor), y = vec4(r.addend);
    vec4 sum[kChains / 4];
    [[unroll]] for (uint c = 0; c < kChains / 4; ++c)
        sum[c] = vec4(float(invocation) + float(4 * c)) + vec4(0.0, 1.0, 2.0, 3.0);
    uint i = 0;
    do {
        [[unroll]] for (uint step = 0; step < kStepsPerIteration; ++step)
            [[unroll]] for (uint c = 0; c < kChains / 4; ++c) sum[c] = fma(sum[c], x, y);
    } while (++i < r.iterations);
    const vec4 all = sum[0] + sum[1] + sum[2];
    store_float(r.sums, uint64_t(group * gl_WorkGroupSize.x + invocation), all.x + all.y + all.z + all.w, kF32);
}
