#version 450
#extension GL_GOOGLE_include_directive : require
// One workgroup, before the update: adds the chunks' sums in order, checks loss and norm, decides whether the step is
// skipped, counts, clips, and advances the bias corrections, whose powers are stored on the device because only applied
// steps count.
#include "common.glsl"
#include "lanes.glsl"
#include "math.glsl"
#include "optimizer/record.h"

PUSH_RECORD(Record);

layout(constant_id = 1) const uint SCALED = 0; // the loss was multiplied by a scale that this step updates

void move_loss_scale(LossScale at, bool good) {
    float scale = at.scale == 0.0 ? kFirstLossScale : at.scale;
    uint steps = good ? at.steps_at_it + 1 : 0;
    if (!good) scale = max(scale * 0.5, 1.0);
    if (steps == kLossScaleSteps) {
        scale = min(scale * 2.0, 16777216.0);
        steps = 0;
    }
    at.scale = scale;
    at.steps_at_it = steps;
}

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    // Lane by lane over its own chunks, then over lanes, so the order depends only on the subgroup size.
    float sum = 0.0;
    uint base = 0;
    do {
        const uint i = base + gl_SubgroupInvocationID;
        const float part = load_float(r.sums, uint64_t(min(i, r.chunks - 1)), kF32);
        sum += i < r.chunks ? part : 0.0;
        base += S;
    } while (base < r.chunks);
    const float squares = lanes_sum(sum);
    OptimizerState state = OptimizerState(r.state);
    const float scale = load_float(r.gradient_scale, 0ul, kF32);
    const float norm = sqrt(squares) * abs(scale);
    bool good = is_finite(norm);
    if (r.loss != 0ul) good = good && is_finite(load_float(r.loss, 0ul, kF32));
    if (gl_SubgroupInvocationID == 0) {
        if (SCALED != 0) move_loss_scale(LossScale(r.loss_scale), good);
        state.norm = norm;
        if (good) {
            float factor = scale;
            if (r.max_norm > 0.0 && norm > r.max_norm) factor *= r.max_norm / (norm + 1e-6);
            const bool first = state.applied == 0;
            const float power1 = (first ? 1.0 : state.power1) * r.beta1;
            const float power2 = (first ? 1.0 : state.power2) * r.beta2;
            state.power1 = power1;
            state.power2 = power2;
            state.correction1 = 1.0 - power1;
            state.sqrt_bias_correction2 = sqrt(1.0 - power2);
            state.factor = factor;
            state.applied = state.applied + 1;
            state.skipped_in_row = 0;
            state.skip = 0;
        } else {
            state.skipped = state.skipped + 1;
            state.skipped_in_row = state.skipped_in_row + 1;
            state.skip = 1;
        }
    }
}
