// Shared by all attention kernels for GPUs: loads of what a kernel does not write, the exponential of a score, dropout of
// four keys.
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

// Returns e^x within 2 ulp for x <= 88, exactly 1 for 0, and 0 below -87: with fused multiplications half the instructions
// of exp_().
float exp_of_score(float x) {
    const float c = clamp(x, -87.0, 88.0);
    const float n = round(c * 1.44269504);
    const float r = fma(n, 2.12194440e-4, fma(n, -0.693359375, c)); // ln 2 in two parts, as in math.glsl
    float p = 1.9841270e-4;
    p = fma(p, r, 1.3888889e-3);
    p = fma(p, r, 8.3333333e-3);
    p = fma(p, r, 4.1666667e-2);
    p = fma(p, r, 1.6666667e-1);
    p = fma(p, r, 0.5);
    p = fma(p, r, 1.0);
    p = fma(p, r, 1.0);
    const float y = p * uintBitsToFloat(uint(int(n) + 127) << 23);
    return x < -87.0 ? 0.0 : is_nan(x) ? x : y;
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
