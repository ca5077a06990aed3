// Rows in vectors of four elements, for kernels of GPUs. Included after lanes.glsl. Vectors are aligned to four
// elements, which lowering checks.
#ifndef HEKLA_FOURS_GLSL
#define HEKLA_FOURS_GLSL

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer GivenFours { uvec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Fours { uvec4 v; };
#ifdef STORAGE16
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer GivenHalfFours { uvec2 v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer HalfFours { uvec2 v; };
#endif

// Loads elements i to i + 3 of a row that the kernel does not write.
vec4 given_four(uint64_t row, uint i, uint type) {
#ifdef STORAGE16
    if (type != kF32) return unpack_four(type, GivenHalfFours(row + i * 2).v);
#endif
    return uintBitsToFloat(GivenFours(row + i * 4).v);
}
void store_four(uint64_t row, uint i, vec4 x, uint type) {
#ifdef STORAGE16
    if (type != kF32) {
        HalfFours(row + i * 2).v = pack_four(type, x);
        return;
    }
#endif
    Fours(row + i * 4).v = floatBitsToUint(x);
}

#endif
