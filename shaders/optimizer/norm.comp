#version 450
#extension GL_GOOGLE_include_directive : require
// The global gradient norm, first stage: the sum of squares of each chunk of 4,096 elements of the gradient arena. A sum
// of values that are not finite is not finite. MASKED sets the gradients of pruned weights to zero first, whatever they
// are, and stores them: such a weight and its moments, zero at the start, are then zero after every update.
#include "common.glsl"
#include "lanes.glsl"
#include "optimizer/record.h"

PUSH_RECORD(NormRecord);

layout(constant_id = 1) const uint MASKED = 0;

bool is_pruned(uint64_t pruned, uint i) { return (Words(pruned).v[i >> 5] >> (i & 31) & 1u) != 0; }

void main() {
    NormRecord r = record;
    HEKLA_GROUP(group, r)
    uint i = group * kPartElements;
    const uint end = min(i + kPartElements, r.count);
    vec2 sum = vec2(0.0);
    do {
        vec2 g = load_two(r.gradients + uint64_t(i) * 4ul);
        if (MASKED != 0) {
            HEKLA_SHARE(first, i, 2)
            g = vec2(is_pruned(r.pruned, first) ? 0.0 : g.x, is_pruned(r.pruned, second(first)) ? 0.0 : g.y);
            store_two(r.gradients + uint64_t(i) * 4ul, g);
        }
        sum += g * g;
        i += S * 2;
    } while (i < end);
    const float total = lanes_sum(sum.x + sum.y);
    if (gl_SubgroupInvocationID == 0) store_float(r.sums, uint64_t(group), total, kF32);
}
