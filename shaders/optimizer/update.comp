#version 450
#extension GL_GOOGLE_include_directive : require
// One dispatch over all parameters: AdamW (Loshchilov and Hutter 2019) as PyTorch computes it, or SGD with momentum, decay
// added to the gradient. A workgroup updates 256 elements of one parameter. A skipped step writes nothing.
#include "common.glsl"
#include "lanes.glsl"
#include "math.glsl"
#include "optimizer/record.h"

PUSH_RECORD(Record);

layout(constant_id = 1) const uint SGD = 0;

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
        const uint64_t at = (uint64_t(block) * kBlockElements + i) * 4ul;
        vec2 p = load_two(r.parameters + at);
        vec2 g = load_two(r.gradients + at) * factor;
        if (SGD == 0) {
            vec2 m = load_two(r.moment1 + at);
            vec2 v = load_two(r.moment2 + at);
            p *= 1.0 - lr * decay;
            m = m + (g - m) * (1.0 - r.beta1);
            v = v * r.beta2 + (1.0 - r.beta2) * g * g;
            p -= step_size * m / (sqrt(v) / sqrt_bias_correction2 + r.epsilon);
            store_two(r.moment1 + at, m);
            store_two(r.moment2 + at, v);
        } else {
            g += decay * p;
            if (r.momentum != 0.0) {
                vec2 m = load_two(r.moment1 + at);
                m = first ? g : r.momentum * m + g;
                store_two(r.moment1 + at, m);
                g = r.nesterov != 0 ? g + r.momentum * m : m;
            }
            p -= lr * g;
        }
        store_two(r.parameters + at, p);
        i += S * 2;
    } while (i < kBlockElements);
}
