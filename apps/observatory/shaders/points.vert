// One square per token, facing the camera.
#version 450
#extension GL_EXT_buffer_reference : require
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Places { vec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Kinds { uint at[]; };
layout(push_constant) uniform Push {
    mat4 view; // to clip space
    Places places;
    Kinds kinds; // per token: a color; 0x100: a neighbor of the selected one; 0x200: hidden
    vec2 pixel;  // in clip space
    float size;  // pixels of a token's radius at distance 1
    uint hovered, chosen;
    float near, far;
} push;
layout(location = 0) out vec2 place;
layout(location = 1) out vec4 color;
layout(location = 2) out float ring;

void main() {
    const uint token = gl_InstanceIndex;
    const uint kind = push.kinds.at[token];
    const vec3 palette[6] = vec3[](vec3(0.36, 0.63, 0.95), vec3(0.40, 0.80, 0.64), vec3(0.98, 0.75, 0.33),
                                   vec3(0.91, 0.45, 0.45), vec3(0.73, 0.55, 0.94), vec3(0.62, 0.66, 0.72));
    const vec2 corners[6] = vec2[](vec2(-1, -1), vec2(1, -1), vec2(1, 1), vec2(-1, -1), vec2(1, 1), vec2(-1, 1));
    const bool marked = token == push.hovered || token == push.chosen, near = (kind & 0x100u) != 0u;
    vec4 position = push.view * vec4(push.places.at[token].xyz, 1.0);
    const float depth = clamp((position.w - push.near) / max(push.far - push.near, 1e-6), 0.0, 1.0);
    float radius = clamp(push.size / max(position.w, 1e-3), 1.2, 14.0);
    if (marked) radius = max(radius * 1.8, 7.0);
    if (near) radius = max(radius * 1.4, 5.0);
    place = corners[gl_VertexIndex];
    position.xy += place * (radius + 1.0) * push.pixel * position.w;
    gl_Position = (kind & 0x200u) != 0u ? vec4(2.0, 2.0, 2.0, 1.0) : position;
    place *= (radius + 1.0) / radius;
    ring = marked ? 1.0 : near ? 0.5 : 0.0;
    color = vec4(palette[min(kind & 0xFFu, 5u)], mix(0.95, 0.28, depth));
    if (push.chosen != 0xFFFFFFFFu && !marked && !near) color.a *= 0.45;
}
