// Adds up the partial sums to get the next axes, orthonormalized by Gram-Schmidt, and the mean. One workgroup.
#version 450
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 128) in;
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Vectors { vec4 at[]; };
layout(push_constant) uniform Push {
    Vectors sums;     // [parts, width]
    Vectors axes;     // [width]
    Vectors variance; // [1]: along each axis
    uint tokens, width, parts;
} push;
shared vec3 pieces[128];

vec3 total(vec3 mine) {
    pieces[gl_LocalInvocationIndex] = mine;
    barrier();
    for (uint half_ = 64u; half_ > 0u; half_ /= 2u) {
        if (gl_LocalInvocationIndex < half_) pieces[gl_LocalInvocationIndex] += pieces[gl_LocalInvocationIndex + half_];
        barrier();
    }
    const vec3 all = pieces[0];
    barrier();
    return all;
}

void main() {
    const uint first = gl_LocalInvocationIndex;
    for (uint i = first; i < push.width; i += 128u) {
        vec4 sum = vec4(0.0);
        for (uint part = 0u; part < push.parts; ++part) sum += push.sums.at[part * push.width + i];
        push.axes.at[i] = vec4(sum.xyz, sum.w / float(push.tokens));
    }
    // From here on, each thread reads only what it wrote itself.
    vec3 square = vec3(0.0);
    for (uint i = first; i < push.width; i += 128u) square += push.axes.at[i].xyz * push.axes.at[i].xyz;
    const vec3 variance = sqrt(total(square)) / float(push.tokens);
    for (int axis = 0; axis < 3; ++axis) {
        for (int before = 0; before < axis; ++before) {
            vec3 along = vec3(0.0);
            for (uint i = first; i < push.width; i += 128u)
                along.x += push.axes.at[i][axis] * push.axes.at[i][before];
            const float share = total(along).x;
            for (uint i = first; i < push.width; i += 128u) push.axes.at[i][axis] -= share * push.axes.at[i][before];
        }
        vec3 length_ = vec3(0.0);
        for (uint i = first; i < push.width; i += 128u) length_.x += push.axes.at[i][axis] * push.axes.at[i][axis];
        const float scale = inversesqrt(max(total(length_).x, 1e-30));
        for (uint i = first; i < push.width; i += 128u) push.axes.at[i][axis] *= scale;
    }
    if (first == 0u) push.variance.at[0] = vec4(variance, 0.0);
}
