#version 450
#extension GL_GOOGLE_include_directive : require
// The least that a dispatch does: a link of a chain in which each waits for the one before.
#include "common.glsl"

HK_RECORD(Record) {
    HK_RECORD_HEAD;
    HK_READS(from);
    HK_WRITES(to);
};

layout(local_size_x_id = 0) in;
PUSH_RECORD(Record);

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const uint64_t at = uint64_t(group * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    store_float(r.to, at, load_float(r.from, at, kF32) + 1.0, kF32);
}
