// Random numbers by key: uniform in [0, 1), or standard normal (Box and Muller 1958).
#version 460
#include "pointwise/elements.glsl"
#include "math.glsl"
#include "philox.glsl"
#include "pointwise/record.h"

layout(constant_id = 0) const uint NORMAL = 0;

PUSH_RECORD(RandomRecord);

void main() {
    HEKLA_GROUP(group, record)
    RuntimeRecord runtime = RuntimeRecord(record.runtime);
    const uvec4 key = uvec4(runtime.seed_low, runtime.seed_high, runtime.step, runtime.first_example);
    HEKLA_EACH_ELEMENT(i, group, record.count, {
        const uint b = i / record.example;
        const uint e = i - b * record.example;
        float value;
        if (NORMAL != 0u) {
            const uvec4 words = random_quad(key, e >> 1, b, record.stream);
            const uint first = (e & 1u) == 0u ? words.x : words.z;
            const uint second = (e & 1u) == 0u ? words.y : words.w;
            // (0, 1]: the logarithm stays finite.
            precise float u = (float(first) + 1.0) * 2.3283064365386963e-10;
            precise float angle = 6.283185307179586 * (float(second) * 2.3283064365386963e-10);
            precise float normal = sqrt(-2.0 * log_(u)) * cos_(angle);
            value = normal;
        } else {
            // The upper 24 bits, which float32 represents exactly, so that 1 is never reached.
            const uint word = random_word(key, e, b, record.stream);
            precise float uniform_value = float(word >> 8) * 5.9604644775390625e-8;
            value = uniform_value;
        }
        if (in_range) FloatArray(record.y).at[i] = value;
    })
}
