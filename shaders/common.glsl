// What the built-in kernels include. A dispatch's push constant is the address of its argument record: HEKLA_RECORD, then
// all addresses, then 32-bit words, in scalar layout (engine/program/lowering/dispatch.hpp holds the other half).
#ifndef HEKLA_COMMON_GLSL
#define HEKLA_COMMON_GLSL

#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_control_flow_attributes : require

#include "divide.glsl"
#include "group.glsl"

// The two words that every argument record begins with: the first linear group of this part of the dispatch, and one past
// the last of all parts.
#define HEKLA_RECORD                                                                                                   \
    uint first_group;                                                                                                  \
    uint end_group;
#define RECORD(name) layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer name
#define PUSH_RECORD(name) layout(push_constant, scalar) uniform Push { name record; }

// Declares `name`, the workgroup's number within the whole dispatch, and leaves where folding added groups past the end.
// `name` is clamped, so that addresses made of it lie inside their buffers even where a driver goes on with no
// invocation left.
#define HEKLA_GROUP(name, record)                                                                                      \
    const uint name##_unclamped = hekla_group() + (record).first_group;                                                \
    const uint name = min(name##_unclamped, (record).end_group - 1u);                                                  \
    if (name##_unclamped >= (record).end_group) return;

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Floats { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Ints { int v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Words { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Pairs { uint64_t v; };

// Storage, as hekla::program::Storage. Kernels without 16-bit storage read and write f32 whatever the constant says.
const uint kF32 = 0u;
const uint kF16 = 1u;
const uint kBF16 = 2u;

#ifdef STORAGE16
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer Halves { uint16_t v[]; };
#include "half.glsl"
#endif

uint64_t bytes_of(uint storage) { return storage == kF32 ? 4ul : 2ul; }

// Element i of a tensor at an address.
float load_float(uint64_t address, uint64_t i, uint storage) {
#ifdef STORAGE16
    if (storage != kF32) return unpack_half(storage, uint(Halves(address + i * 2ul).v[0]));
#endif
    return Floats(address + i * 4ul).v[0];
}
void store_float(uint64_t address, uint64_t i, float x, uint storage) {
#ifdef STORAGE16
    if (storage != kF32) {
        Halves(address + i * 2ul).v[0] = uint16_t(pack_half(storage, x));
        return;
    }
#endif
    Floats(address + i * 4ul).v[0] = x;
}
int load_int(uint64_t address, uint64_t i) { return Ints(address + i * 4ul).v[0]; }
void store_int(uint64_t address, uint64_t i, int x) { Ints(address + i * 4ul).v[0] = x; }

// Elements i and i + 1, i even, in one load of 8 (or 4) bytes: the address must allow it, which lowering checks. Where a
// driver gathers lane by lane this halves the cost of reading.
vec2 load_pair(uint64_t address, uint64_t i, uint storage) {
#ifdef STORAGE16
    if (storage != kF32) {
        uint both = Words(address + i * 2ul).v[0];
        return vec2(unpack_half(storage, both & 0xFFFFu), unpack_half(storage, both >> 16));
    }
#endif
    return uintBitsToFloat(unpackUint2x32(Pairs(address + i * 4ul).v));
}

// Not packUint2x32: Mesa 26.2's lavapipe writes past an array of its own when it compiles that for 16 lanes.
void store_pair(uint64_t address, uint64_t i, vec2 x) {
    Pairs(address + i * 4ul).v = uint64_t(floatBitsToUint(x.x)) | (uint64_t(floatBitsToUint(x.y)) << 32);
}

#endif
