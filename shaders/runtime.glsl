// RuntimeRecord of engine/program/lowering/dispatch.hpp: what every replay finds in Lowering::runtime().
#ifndef HEKLA_RUNTIME_GLSL
#define HEKLA_RUNTIME_GLSL

#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer RuntimeRecord {
    uint seed_low;
    uint seed_high;
    uint step;
    uint first_example;
    uint accumulate;
    uint reserved[3];
};

#endif
