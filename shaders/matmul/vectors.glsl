// Loads and stores of four neighboring elements, for the matmul kernels of GPUs. Addresses are a base that is the same
// for all threads and an offset in bytes, from which drivers make one instruction.
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer VectorIn { uvec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer HalfVectorIn { uvec2 v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer WordIn { uint v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Vector { uvec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer HalfVector { uvec2 v; };
#ifdef STORAGE16
layout(buffer_reference, scalar, buffer_reference_align = 2) readonly buffer HalfIn { uint16_t v; };
#endif

// Loads four elements of an operand, as bits; unpack() makes floats of them. With `vectors` they are aligned to four
// elements; otherwise the last three are `along` bytes after the first. The buffer is not written in this dispatch.
uvec4 fetch(uint64_t base, uint offset, uvec3 along, uint storage, bool vectors) {
#ifdef STORAGE16
    if (storage != kF32) {
        if (vectors) return uvec4(HalfVectorIn(base + offset).v, 0, 0);
        return uvec4(HalfIn(base + offset).v, HalfIn(base + (offset + along.x)).v, HalfIn(base + (offset + along.y)).v,
                     HalfIn(base + (offset + along.z)).v);
    }
#endif
    if (vectors) return VectorIn(base + offset).v;
    return uvec4(WordIn(base + offset).v, WordIn(base + (offset + along.x)).v, WordIn(base + (offset + along.y)).v,
                 WordIn(base + (offset + along.z)).v);
}

vec4 unpack(uvec4 bits, uint storage, bool vectors) {
#ifdef STORAGE16
    if (storage != kF32) {
        if (vectors) return unpack_four(storage, bits.xy);
        return vec4(unpack_half(storage, bits.x), unpack_half(storage, bits.y), unpack_half(storage, bits.z),
                    unpack_half(storage, bits.w));
    }
#endif
    return uintBitsToFloat(bits);
}

// Loads or stores four elements that are aligned to four elements.
vec4 load_vector(uint64_t base, uint offset, uint storage) {
#ifdef STORAGE16
    if (storage != kF32) return unpack_four(storage, HalfVector(base + offset).v);
#endif
    return uintBitsToFloat(Vector(base + offset).v);
}
void store_vector(uint64_t base, uint offset, vec4 x, uint storage) {
#ifdef STORAGE16
    if (storage != kF32) {
        HalfVector(base + offset).v = pack_four(storage, x);
        return;
    }
#endif
    Vector(base + offset).v = floatBitsToUint(x);
}
