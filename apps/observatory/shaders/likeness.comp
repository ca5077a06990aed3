// The cosine between one token's row and every other row.
#version 450
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 64) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(push_constant) uniform Push {
    Floats table;   // [tokens, width]
    Floats cosines; // [tokens]
    uint tokens, width, chosen;
} push;
void main() {
    const uint token = gl_GlobalInvocationID.x;
    if (token >= push.tokens) return;
    float dot_ = 0.0, here = 0.0, there = 0.0;
    for (uint i = 0; i < push.width; ++i) {
        const float a = push.table.at[push.chosen * push.width + i], b = push.table.at[token * push.width + i];
        dot_ += a * b;
        here += a * a;
        there += b * b;
    }
    push.cosines.at[token] = dot_ * inversesqrt(max(here * there, 1e-30));
}
