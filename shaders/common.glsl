// Included by the built-in kernels. A dispatch's push constant is the address of its argument record (record.glsl).
#ifndef HEKLA_COMMON_GLSL
#define HEKLA_COMMON_GLSL

#extension GL_EXT_control_flow_attributes : require

#include "record.glsl"
#include "divide.glsl"
#include "common.h"

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Floats { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Ints { int v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Words { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Pairs { uint64_t v; };

#ifdef STORAGE16
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer Words16 { uint16_t v[]; };
#include "half.glsl"
#endif

uint64_t bytes_of(uint storage) { return storage == kF32 ? 4ul : 2ul; }

// Loads element i of a tensor at an address.
float load_float(uint64_t address, uint64_t i, uint storage) {
#ifdef STORAGE16
    if (storage != kF32) return unpack_half(storage, uint(Words16(address + i * 2ul).v[0]));
#endif
    return Floats(address + i * 4ul).v[0];
}
void store_float(uint64_t address, uint64_t i, float x, uint storage) {
#ifdef STORAGE16
    if (storage != kF32) {
        Words16(address + i * 2ul).v[0] = uint16_t(pack_half(storage, x));
        return;
    }
#endif
    Floats(address + i * 4ul).v[0] = x;
}
int load_int(uint64_t address, uint64_t i) { return Ints(address + i * 4ul).v[0]; }
void store_int(uint64_t address, uint64_t i, int x) { Ints(address + i * 4ul).v[0] = x; }

// Loads elements i and i + 1, i even, with one load of 8 (or 4) bytes: the address must be aligned for it, which
// lowering checks. This halves the cost of reading if a driver gathers lane by lane.
vec2 load_pair(uint64_t address, uint64_t i, uint storage) {
#ifdef STORAGE16
    if (storage != kF32) {
        uint both = Words(address + i * 2ul).v[0];
        return vec2(unpack_half(storage, both & 0xFFFFu), unpack_half(storage, both >> 16));
    }
#endif
    return uintBitsToFloat(unpackUint2x32(Pairs(address + i * 4ul).v));
}

// Not packUint2x32: Mesa 26.2's lavapipe writes past an internal array when it compiles that for 16 lanes.
void store_pair(uint64_t address, uint64_t i, vec2 x) {
    Pairs(address + i * 4ul).v = uint64_t(floatBitsToUint(x.x)) | (uint64_t(floatBitsToUint(x.y)) << 32);
}
void store_pair_of(uint64_t address, uint64_t i, vec2 x, uint storage) {
#ifdef STORAGE16
    if (storage != kF32) {
        Words(address + i * 2ul).v[0] = pack_half(storage, x.x) | pack_half(storage, x.y) << 16;
        return;
    }
#endif
    store_pair(address, i, x);
}

#endif
