#version 450
#extension GL_GOOGLE_include_directive : require
// The gradient of each row's sink: -delta times the sink's probability. A row per invocation; the rows of a head are
// summed afterwards.
layout(local_size_x = 64) in;

#include "common.glsl"
#include "math.glsl"
#include "attention/record.h"

PUSH_RECORD(SinksRecord);

void main() {
    SinksRecord r = record;
    HEKLA_GROUP(group, r)
    const uint row = group * 64 + gl_LocalInvocationID.x;
    if (row >= r.rows) return;
    const vec2 lse = load_pair(r.lse, uint64_t(row) * 2, kF32);
    const float sink = load_float(r.sinks, uint64_t(row / r.queries % r.heads), kF32);
    store_float(r.gradient, uint64_t(row), -exp_(sink - lse.x - lse.y) * load_float(r.delta, uint64_t(row), kF32), kF32);
}
