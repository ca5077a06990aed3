// A tensor, to a buffer that the host reads.
#version 450
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 64) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(push_constant) uniform Push {
    Floats from, to;
    uint count;
} push;
void main() {
    if (gl_GlobalInvocationID.x < push.count) push.to.at[gl_GlobalInvocationID.x] = push.from.at[gl_GlobalInvocationID.x];
}
