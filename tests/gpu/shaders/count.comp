// One invocation per group: at[i] += 1 for every i below the count. Checks that folding runs each group once.
//! variant plain
//! variant f16 HALF
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_GOOGLE_include_directive : require
#ifdef HALF
#extension GL_EXT_shader_16bit_storage : require
#define NUMBER float16_t
#define ALIGN 2
#else
#define NUMBER uint
#define ALIGN 4
#endif
#include "group.glsl"

layout(local_size_x = 1) in;
layout(buffer_reference, scalar, buffer_reference_align = ALIGN) buffer Numbers { NUMBER at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Arguments {
    Numbers numbers;
    uint count;
};
layout(push_constant) uniform Push { Arguments arguments; };

void main() {
    const uint i = hekla_group();
    if (i >= arguments.count) return;
#ifdef HALF
    arguments.numbers.at[i] = float16_t(float(arguments.numbers.at[i]) + 1.0);
#else
    arguments.numbers.at[i] += 1u;
#endif
}
