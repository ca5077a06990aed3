// One number of a tensor, for a tooltip.
#version 450
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 1) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(push_constant) uniform Push {
    Floats from, to;
    uint index;
} push;
void main() { push.to.at[0] = push.from.at[push.index]; }
