// The frame of every elementwise kernel: a workgroup computes kElementsPerGroup elements, HEKLA_WIDTH at a time, so
// that neighbors in a subgroup read neighbors in memory. HEKLA_WIDTH is 128 invocations, or 16 on a CPU, where every
// subgroup loads the record again. Generated kernels begin with this file.
#ifndef HEKLA_ELEMENTS_GLSL
#define HEKLA_ELEMENTS_GLSL

#extension GL_EXT_control_flow_attributes : require

#include "record.glsl"
#include "divide.glsl"
#include "common.h"
#include "runtime.h"

#ifndef HEKLA_WIDTH
#define HEKLA_WIDTH 128
#endif
layout(local_size_x = HEKLA_WIDTH) in;

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer FloatArray { float at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer IntArray { int at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer WordArray { uint at[]; };

#ifdef STORAGE16
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer HalfArray { uint16_t at[]; };
#include "half.glsl"
float hekla_load_half(HalfArray from, uint i, uint storage) { return unpack_half(storage, uint(from.at[i])); }
void hekla_store_half(HalfArray to, uint i, float x, uint storage) { to.at[i] = uint16_t(pack_half(storage, x)); }
#endif

#ifdef HEKLA_LANES
// The workgroup is one subgroup of HEKLA_LANES. Returns a lane's element of those that follow each other from `base`, which
// is the same for all lanes, as load_consecutive of lanes.glsl does. The driver joins the loads into one where their
// addresses are one of 64 bits and constants.
#extension GL_KHR_shader_subgroup_basic : require
#define HEKLA_CONSECUTIVE(type, array)                                                                                 \
    type hekla_consecutive_##type(array from, uint base) {                                                             \
        array first = array(uint64_t(from) + uint64_t(base) * 4ul);                                                    \
        type x = first.at[0];                                                                                          \
        [[unroll]] for (uint l = 1u; l < HEKLA_LANES; ++l)                                                             \
            x = mix(x, first.at[l], gl_SubgroupInvocationID == l);                                                     \
        return x;                                                                                                      \
    }
HEKLA_CONSECUTIVE(float, FloatArray)
HEKLA_CONSECUTIVE(int, IntArray)
#endif

// Runs `body` for each of this workgroup's elements: `i` is its number, clamped to the last; `in_range`: it was not clamped.
#define HEKLA_EACH_ELEMENT(i, group, count, body)                                                                      \
    {                                                                                                                  \
        uint hekla_round = 0u;                                                                                         \
        do {                                                                                                           \
            const uint hekla_element = (group) * kElementsPerGroup + hekla_round * HEKLA_WIDTH + gl_LocalInvocationID.x; \
            const uint i = min(hekla_element, (count) - 1u);                                                           \
            const bool in_range = hekla_element < (count);                                                                 \
            body                                                                                                       \
        } while (++hekla_round < kElementsPerGroup / HEKLA_WIDTH);                                                     \
    }

#endif
