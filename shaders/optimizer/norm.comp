#version 450
#extension GL_GOOGLE_include_directive : require
// The global gradient norm, first stage: the sum of squares of each chunk of 4,096 elements of the gradient arena. A sum
// of values that are not finite is not finite.
#include "common.glsl"
#include "lanes.glsl"
#include "optimizer/record.h"

PUSH_RECORD(NormRecord);

void main() {
    NormRecord r = record;
    HEKLA_GROUP(group, r)
    uint i = group * kPartElements;
    const uint end = min(i + kPartElements, r.count);
    vec2 sum = vec2(0.0);
    do {
        const vec2 g = load_two(r.gradients + uint64_t(i) * 4ul);
        sum += g * g;
        i += S * 2;
    } while (i < end);
    const float total = lanes_sum(sum.x + sum.y);
    if (gl_SubgroupInvocationID == 0) store_float(r.sums, uint64_t(group), total, kF32);
}
