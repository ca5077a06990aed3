// Random numbers by key: uniform in [0, 1), standard normal (Box and Muller 1958), or that between two bounds.
#version 460
#include "pointwise/elements.glsl"
#include "math.glsl"
#include "philox.glsl"
#include "pointwise/record.h"

layout(constant_id = 0) const uint KIND = kUniform;

PUSH_RECORD(RandomRecord);

// Returns x >= 0 that a normal number exceeds with probability q, in (0, 0.5], where r is 0.5 - q: Wichura 1988, AS 241,
// PPND7.
precise float tail_quantile(float q, float r) {
    precise float z = 0.180625 - r * r;
    precise float top = ((59.109374720 * z + 159.29113202) * z + 50.434271938) * z + 3.3871327179;
    precise float bottom = ((67.187563600 * z + 78.757757664) * z + 17.895169469) * z + 1.0;
    precise float center = r * top / bottom;
    precise float s = sqrt(-log_(q));
    precise float t = s <= 5.0 ? s - 1.6 : s - 5.0;
    precise float near = (((0.17023821103 * t + 1.3067284816) * t + 2.7568153900) * t + 1.4234372777) /
                         ((0.12021132975 * t + 0.73700164250) * t + 1.0);
    precise float far = (((0.017337203997 * t + 0.42868294337) * t + 3.0812263860) * t + 6.6579051150) /
                        ((0.012258202635 * t + 0.24197894225) * t + 1.0);
    return r <= 0.425 ? center : s <= 5.0 ? near : far;
}

// Probabilities are counted from the nearer tail, as TruncatedNormal of engine/graph/truncated_normal.hpp does, and near 0
// from the middle.
precise float truncated_normal(uint word) {
    precise float u = (float(word >> 8) + 0.5) * 5.9604644775390625e-8;
    precise float v = (float(0xFFFFFFu - (word >> 8)) + 0.5) * 5.9604644775390625e-8; // 1 - u
    precise float left = record.below + u * record.inside;
    precise float right = record.above + v * record.inside;
    precise float middle = record.middle - u * record.inside;
    precise float x = tail_quantile(min(left, right), abs(middle));
    return clamp(middle >= 0.0 ? -x : x, record.low, record.high);
}

void main() {
    HEKLA_GROUP(group, record)
    RuntimeRecord runtime = RuntimeRecord(record.runtime);
    const uvec4 key = uvec4(runtime.seed_low, runtime.seed_high, runtime.step, runtime.first_example);
    HEKLA_EACH_ELEMENT(i, group, record.count, {
        const uint b = i / record.example;
        const uint e = i - b * record.example;
        float value;
        if (KIND == kNormal) {
            const uvec4 words = random_quad(key, e >> 1, b, record.stream);
            const uint first = (e & 1u) == 0u ? words.x : words.z;
            const uint second = (e & 1u) == 0u ? words.y : words.w;
            // (0, 1]: the logarithm stays finite.
            precise float u = (float(first) + 1.0) * 2.3283064365386963e-10;
            precise float angle = 6.283185307179586 * (float(second) * 2.3283064365386963e-10);
            precise float normal = sqrt(-2.0 * log_(u)) * cos_(angle);
            value = normal;
        } else if (KIND == kTruncatedNormal) {
            value = truncated_normal(random_word(key, e, b, record.stream));
        } else {
            // The upper 24 bits, which float32 represents exactly, so that 1 is never reached.
            const uint word = random_word(key, e, b, record.stream);
            precise float uniform_value = float(word >> 8) * 5.9604644775390625e-8;
            value = uniform_value;
        }
        if (in_range) FloatArray(record.y).at[i] = value;
    })
}
