#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant 16 STORAGE16
// One dispatch over all parameters: AdamW (Loshchilov and Hutter 2019) as PyTorch computes it, or SGD with momentum, decay
// added to the gradient. A workgroup updates 256 elements of one parameter. A skipped step writes nothing. Moments in bfloat16
// (MOMENTS) are rounded at random, up or down with the probability of the distance: rounded to the nearest, a change of less
// than half a unit, which is most of them, would be lost each time.
#include "common.glsl"
#include "lanes.glsl"
#include "math.glsl"
#include "philox.glsl"
#include "optimizer/record.h"

PUSH_RECORD(Record);

layout(constant_id = 1) const uint SGD = 0;
layout(constant_id = 2) const uint MOMENTS = 0; // storage

// Loads and stores two moments of a lane, the same elements as load_two(); `at` is the first element of all lanes.
vec2 load_moments(uint64_t moments, uint64_t at) {
#ifdef STORAGE16
    if (MOMENTS != kF32) {
        if (UNIFORM_LOADS == 0) return load_pair(moments, at + gl_SubgroupInvocationID * 2, MOMENTS);
        return vec2(load_float(moments, at + gl_SubgroupInvocationID, MOMENTS),
                    load_float(moments, at + gl_SubgroupInvocationID + S, MOMENTS));
    }
#endif
    return load_two(moments + at * 4ul);
}
#ifdef STORAGE16
uint round_at_random(float x, uint word) { return (floatBitsToUint(x) + (word & 0xFFFFu)) >> 16; }
#endif
void store_moments(uint64_t moments, uint64_t at, vec2 x, uvec2 words) {
#ifdef STORAGE16
    if (MOMENTS != kF32) {
        const uint first = round_at_random(x.x, words.x);
        const uint second = round_at_random(x.y, words.y);
        if (UNIFORM_LOADS == 0) {
            Words(moments + (at + gl_SubgroupInvocationID * 2) * 2ul).v[0] = first | second << 16;
        } else {
            Words16(moments + (at + gl_SubgroupInvocationID) * 2ul).v[0] = uint16_t(first);
            Words16(moments + (at + gl_SubgroupInvocationID + S) * 2ul).v[0] = uint16_t(second);
        }
        return;
    }
#endif
    store_two(moments + at * 4ul, x);
}

void main() {
    Record r = record;
    HEKLA_GROUP(block, r)
    OptimizerState state = OptimizerState(r.state);
    const uint which = Words(r.blocks).v[block];
    if (state.skip != 0 || which == kUntouched) return;
    const float lr = load_float(r.learning_rate, 0ul, kF32) * load_float(r.groups, uint64_t(which) * 2, kF32);
    const float decay = load_float(r.groups, uint64_t(which) * 2 + 1, kF32);
    const float factor = state.factor;
    const float step_size = lr / state.correction1;
    const float sqrt_bias_correction2 = state.sqrt_bias_correction2;
    const bool first = state.applied == 1;
    uint i = 0;
    do {
        const uint64_t element = uint64_t(block) * kBlockElements + i;
        const uint64_t at = element * 4ul;
        uvec4 words = uvec4(0);
        if (MOMENTS != kF32)
            words = philox(uvec4(r.first_block + block, i + gl_SubgroupInvocationID * 2, state.applied, 0u), uvec2(r.chunk, 0u));
        vec2 p = load_two(r.parameters + at);
        vec2 g = load_two(r.gradients + at) * factor;
        if (SGD == 0) {
            vec2 m = load_moments(r.moment1, element);
            vec2 v = load_moments(r.moment2, element);
            p *= 1.0 - lr * decay;
            m = m + (g - m) * (1.0 - r.beta1);
            v = v * r.beta2 + (1.0 - r.beta2) * g * g;
            p -= step_size * m / (sqrt(v) / sqrt_bias_correction2 + r.epsilon);
            store_moments(r.moment1, element, m, words.xy);
            store_moments(r.moment2, element, v, words.zw);
        } else {
            g += decay * p;
            if (r.momentum != 0.0) {
                vec2 m = load_moments(r.moment1, element);
                m = first ? g : r.momentum * m + g;
                store_moments(r.moment1, element, m, words.xy);
                g = r.nesterov != 0 ? g + r.momentum * m : m;
            }
            p -= lr * g;
        }
        store_two(r.parameters + at, p);
        i += S * 2;
    } while (i < kBlockElements);
}
