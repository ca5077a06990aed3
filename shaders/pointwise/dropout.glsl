// Element `i` of a tensor whose examples have `example` elements each: kept, and multiplied by `factor`, where its word
// reaches the threshold. A dropped element is 0 even where x is not finite.
#include "philox.glsl"

float hekla_dropout(float x, RuntimeRecord runtime, uint stream, uint threshold, float factor, uint i, uint example) {
    const uint b = i / example;
    const uvec4 key = uvec4(runtime.seed_low, runtime.seed_high, runtime.step, runtime.first_example);
    precise float kept = x * factor;
    return random_word(key, i - b * example, b, stream) >= threshold ? kept : 0.0;
}
