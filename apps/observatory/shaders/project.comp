// Projects each token onto the axes: its row minus the mean, times the axes. The fourth component is 1, so that the
// next sum over tokens also gives the mean.
#version 450
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 64) in;
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Vectors { vec4 at[]; };
layout(push_constant) uniform Push {
    Floats table;   // [tokens, width]
    Vectors axes;   // [width]: three axes and the mean
    Vectors places; // [tokens]
    uint tokens, width;
} push;
void main() {
    const uint token = gl_GlobalInvocationID.x;
    if (token >= push.tokens) return;
    vec3 sum = vec3(0.0);
    for (uint i = 0; i < push.width; ++i) {
        const vec4 axis = push.axes.at[i];
        sum += (push.table.at[token * push.width + i] - axis.w) * axis.xyz;
    }
    push.places.at[token] = vec4(sum, 1.0);
}
