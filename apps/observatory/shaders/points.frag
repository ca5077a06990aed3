// A disc, with a rim for the token under the mouse, the selected one and its neighbors.
#version 450
layout(location = 0) in vec2 place;
layout(location = 1) in vec4 color;
layout(location = 2) in float ring;
layout(location = 0) out vec4 result;
void main() {
    const float distance = length(place), edge = fwidth(distance);
    const float inside = 1.0 - smoothstep(1.0 - edge, 1.0 + edge, distance);
    if (inside <= 0.0) discard;
    const float rim = ring * smoothstep(0.62 - edge, 0.62 + edge, distance);
    result = vec4(mix(color.rgb, vec3(1.0), rim), max(color.a, ring) * inside);
}
