// 16-bit storage of floats, like engine/program/lowering/half.hpp: arithmetic is in float32, and stored values are
// rounded to the nearest, ties to even. Implemented with integers, because the rounding of packHalf2x16 depends on the
// driver.
#ifndef HEKLA_HALF_GLSL
#define HEKLA_HALF_GLSL

// storage: 1 float16, 2 bfloat16 (hekla::program::Storage); `bits` has 16.
float unpack_half(uint storage, uint bits) {
    return storage == 1u ? unpackHalf2x16(bits).x : uintBitsToFloat(bits << 16);
}

uint pack_float16(float x) {
    const uint all = floatBitsToUint(x);
    const uint sign = (all >> 16) & 0x8000u;
    const uint bits = all & 0x7FFFFFFFu;
    uint y = (bits + 0xFFFu + ((bits >> 13) & 1u) - 0x38000000u) >> 13;
    // Below 2^-14 the unit is 2^-24, to which a sum with 0.5 is rounded.
    precise float shifted = uintBitsToFloat(bits) + 0.5;
    if (bits < 0x38800000u) y = floatBitsToUint(shifted) - 0x3F000000u;
    if (bits >= 0x477FF000u) y = 0x7C00u; // 65520 and above
    if (bits > 0x7F800000u) y = 0x7E00u;
    return sign | y;
}

uint pack_half(uint storage, float x) {
    if (storage == 1u) return pack_float16(x);
    const uint bits = floatBitsToUint(x);
    const uint rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    return (bits & 0x7FFFFFFFu) > 0x7F800000u ? (bits >> 16) | 0x40u : rounded;
}

// Four neighboring elements, as they are stored.
vec4 unpack_four(uint storage, uvec2 bits) {
    return vec4(unpack_half(storage, bits.x & 0xFFFFu), unpack_half(storage, bits.x >> 16),
                unpack_half(storage, bits.y & 0xFFFFu), unpack_half(storage, bits.y >> 16));
}
uvec2 pack_four(uint storage, vec4 x) {
    return uvec2(pack_half(storage, x.x) | (pack_half(storage, x.y) << 16),
                 pack_half(storage, x.z) | (pack_half(storage, x.w) << 16));
}

#endif
