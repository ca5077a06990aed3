// y[i] = a * x[i] + y[i], with buffer addresses.
//! variant plain
//! spirv-1.6
//! variant new
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_GOOGLE_include_directive : require
#include "group.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const float a = 1.0;

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Arguments {
    Floats x;
    Floats y;
    uint count;
};
layout(push_constant) uniform Push { Arguments arguments; };

void main() {
    const uint i = hekla_group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (i >= arguments.count) return;
    arguments.y.at[i] = a * arguments.x.at[i] + arguments.y.at[i];
}
