// What every kernel of the engine begins with (engine/program/dispatch.hpp holds the other half).
//
// The push constants hold one address: the dispatch's argument record. Each record begins with HEKLA_RECORD, so that a
// dispatch can be split into several, each with its own part of the groups:
//
//     layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Record {
//         HEKLA_RECORD
//         Floats x;          // addresses first keeps 8-byte alignment without padding
//         uint count;
//     };
//     layout(push_constant) uniform Push { Record record; };
//     void main() {
//         HEKLA_GROUP(group, record)
//         ...
//     }
#ifndef HEKLA_COMMON_GLSL
#define HEKLA_COMMON_GLSL

#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require

#include "group.glsl"

#define HEKLA_RECORD                                                                                                   \
    uint group_offset;                                                                                                 \
    uint group_end;

// Declares `name`, the workgroup's number within the whole dispatch, and leaves where folding added groups past the end.
// `name` is clamped, so that addresses made of it lie inside their buffers even where a driver goes on with no
// invocation left.
#define HEKLA_GROUP(name, record)                                                                                      \
    const uint name##_unclamped = hekla_group() + (record).group_offset;                                               \
    const uint name = min(name##_unclamped, (record).group_end - 1u);                                                  \
    if (name##_unclamped >= (record).group_end) return;

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Ints { int at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Words { uint at[]; };

// RuntimeRecord of engine/program/dispatch.hpp.
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer RuntimeRecord {
    uint seed_low;
    uint seed_high;
    uint step;
    uint first_example;
    uint accumulate;
    uint reserved[3];
};

#endif
