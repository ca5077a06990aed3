// Shared by all attention kernels for GPUs: loads of what a kernel does not write, dropout of four keys.
#include "common.glsl"
#include "runtime.h"
#include "philox.glsl"
#include "math.glsl"
#include "attention/record.h"

layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer GivenFloats { float v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer GivenInts { int v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer GivenPairs { vec2 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer GivenQuads { vec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Quads { vec4 v; };
#ifdef STORAGE16
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer GivenHalfQuads { uvec2 v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) writeonly buffer HalfQuads { uvec2 v; };
layout(buffer_reference, scalar, buffer_reference_align = 2) readonly buffer GivenHalves { uint16_t v; };
#endif

float given_float(uint64_t address, uint64_t i) { return GivenFloats(address + i * 4ul).v; }
int given_int(uint64_t address, uint64_t i) { return GivenInts(address + i * 4ul).v; }
vec2 given_pair(uint64_t address, uint64_t i) { return GivenPairs(address + i * 4ul).v; }

#include "attention/scores.glsl"
#include "attention/exponential.glsl"

// Adds the sink of head h to a row, whose exponentials are relative to `base` and have this sum. Returns what its values,
// which are relative to the base before, are divided by.
float add_sink(Record r, uint h, inout float base, inout float sum) {
    const float sink = given_float(r.sinks, uint64_t(h));
    const float divisor = sum + exp_of_score(sink - base);
    const float top = max(base, sink);
    sum = sum * exp_of_score(base - top) + exp_of_score(sink - top);
    base = top;
    return divisor;
}

// Returns the factors of dropout for keys j .. j + 3 of a query, j a multiple of 4: 0 or 1 / (1 - p).
vec4 keep_four(Record r, uvec4 key, uint b, uint h, uint i, uint j) {
    const uint e = (h * r.queries + i) * r.keys + j;
    const uvec4 low = random_quad(key, e >> 2, b, r.stream);
    uvec4 words = low;
    if (r.keys % 4 != 0) {
        const uvec4 high = random_quad(key, (e >> 2) + 1, b, r.stream);
        const uint shift = e & 3u;
        if (shift == 1) words = uvec4(low.yzw, high.x);
        if (shift == 2) words = uvec4(low.zw, high.xy);
        if (shift == 3) words = uvec4(low.w, high.xyz);
    }
    return mix(vec4(0.0), vec4(r.dropout_factor), greaterThanEqual(words, uvec4(r.threshold)));
}
