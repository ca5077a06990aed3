#version 450
#extension GL_GOOGLE_include_directive : require
//! no-optimizer
// Multiply-adds of which each waits for the one before: their time is that of some clocks.
#include "common.glsl"

HK_RECORD(Record) {
    HK_RECORD_HEAD;
    HK_WRITES(sums); // float32, one for each invocation
    HK_U32(iterations);
    HK_F32(factor);
    HK_F32(addend);
};

const uint kSteps = 64; // of an iteration
layout(local_size_x_id = 0) in;
PUSH_RECORD(Record);

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const uint at = group * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    float sum = float(at);
    uint i = 0;
    do {
        [[unroll]] for (uint step = 0; step < kSteps; ++step) sum = fma(sum, r.factor, r.addend);
    } while (++i < r.iterations);
    store_float(r.sums, uint64_t(at), sum, kF32);
}
