// Writes the subgroup size and the sum over its lanes.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(local_size_x_id = 0) in;
layout(buffer_reference, scalar, buffer_reference_align = 4) writeonly buffer Words { uint at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Arguments { Words out_words; };
layout(push_constant) uniform Push { Arguments arguments; };

void main() {
    const uint sum = subgroupAdd(gl_SubgroupInvocationID);
    if (gl_LocalInvocationID.x == 0) {
        arguments.out_words.at[0] = gl_SubgroupSize;
        arguments.out_words.at[1] = sum;
    }
}
