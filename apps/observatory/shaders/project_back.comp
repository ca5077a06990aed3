// The transposed table times the positions, over a part of the tokens: one thread per column, one workgroup row per
// part.
#version 450
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 64) in;
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Vectors { vec4 at[]; };
layout(push_constant) uniform Push {
    Floats table;   // [tokens, width]
    Vectors places; // [tokens]
    Vectors sums;   // [parts, width]
    uint tokens, width, parts;
} push;
void main() {
    const uint column = gl_GlobalInvocationID.x, part = gl_WorkGroupID.y;
    if (column >= push.width) return;
    const uint each = (push.tokens + push.parts - 1u) / push.parts;
    const uint end = min((part + 1u) * each, push.tokens);
    vec4 sum = vec4(0.0);
    for (uint token = part * each; token < end; ++token)
        sum += push.table.at[token * push.width + column] * push.places.at[token];
    push.sums.at[part * push.width + column] = sum;
}
