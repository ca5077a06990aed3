#version 450
#extension GL_GOOGLE_include_directive : require
//! variant copy COPY
//! variant read READ
//! variant write WRITE
// The speed of memory: every invocation reads or writes `count` vectors of 16 bytes, each a workgroup's width after the
// one before. `read` stores the sums, one vector for each invocation.
#include "common.glsl"

HK_RECORD(Record) {
    HK_RECORD_HEAD;
    HK_READS(from);
    HK_WRITES(to);
    HK_U32(count);
    HK_F32(value);
};

layout(local_size_x_id = 0) in;
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Fours { vec4 v; };
PUSH_RECORD(Record);

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const uint64_t first = uint64_t(group) * gl_WorkGroupSize.x * r.count + gl_LocalInvocationID.x;
    vec4 sum = vec4(0.0);
    uint i = 0;
    do {
        const uint64_t at = (first + i * gl_WorkGroupSize.x) * 16ul;
#ifdef COPY
        Fours(r.to + at).v = Fours(r.from + at).v;
#endif
#ifdef READ
        sum += Fours(r.from + at).v;
#endif
#ifdef WRITE
        Fours(r.to + at).v = vec4(r.value);
#endif
    } while (++i < r.count);
#ifdef READ
    Fours(r.to + uint64_t(group * gl_WorkGroupSize.x + gl_LocalInvocationID.x) * 16ul).v = sum;
#endif
}
