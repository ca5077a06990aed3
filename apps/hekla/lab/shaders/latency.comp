#version 450
#extension GL_GOOGLE_include_directive : require
//! no-optimizer
//! variant plain
//! variant clock CLOCK
// Multiply-adds of which each waits for the one before: their time is that of some clocks.
//   CLOCK  counts the ticks of the core's clock (VK_KHR_shader_clock)
#ifdef CLOCK
#extension GL_ARB_shader_clock : require
#endif
#include "common.glsl"

HK_RECORD(Record) {
    HK_RECORD_HEAD;
    HK_WRITES(sums); // float32, one for each invocation
    HK_U32(iterations);
    HK_F32(factor);
    HK_F32(addend);
    HK_WRITES(ticks); // with CLOCK: float32, one for each invocation
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
#ifdef CLOCK
    uint ticks = 0, before = clock2x32ARB().x;
#endif
    do {
        [[unroll]] for (uint step = 0; step < kSteps; ++step) sum = fma(sum, r.factor, r.addend);
#ifdef CLOCK
        // Some clocks have 20 bits, which an iteration does not fill.
        const uint now = clock2x32ARB().x;
        ticks += now - before & 0xFFFFFu;
        before = now;
#endif
    } while (++i < r.iterations);
    store_float(r.sums, uint64_t(at), sum, kF32);
#ifdef CLOCK
    store_float(r.ticks, uint64_t(at), float(ticks), kF32);
#endif
}
