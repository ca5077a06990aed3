// One head's map, read directly from the engine's buffer: one row per query, one column per key.
#version 450
#extension GL_EXT_buffer_reference : require
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Floats { float at[]; };
layout(push_constant) uniform Push {
    Floats map; // [queries, keys]
    uint queries, keys;
    float gamma;      // exponent for the weight, before it is mapped to a color
    uint row, column; // under the mouse; the number of rows or columns if none
    float cell;       // pixels per cell
} push;
layout(location = 0) in vec2 place;
layout(location = 0) out vec4 color;

// Dark violet, through red and orange, to pale yellow: perceptually uniform, and readable in black and white.
vec3 heat(float t) {
    const vec3 stops[7] = vec3[](vec3(0.035, 0.03, 0.085), vec3(0.20, 0.06, 0.36), vec3(0.45, 0.12, 0.43),
                                 vec3(0.72, 0.21, 0.33), vec3(0.93, 0.39, 0.20), vec3(0.98, 0.65, 0.20),
                                 vec3(0.99, 0.98, 0.75));
    const float x = clamp(t, 0.0, 1.0) * 6.0;
    const int i = min(int(x), 5);
    return mix(stops[i], stops[i + 1], x - float(i));
}

void main() {
    const vec2 at = place * vec2(push.keys, push.queries);
    // The greatest weight under the pixel, if cells are smaller than pixels.
    const ivec2 last = ivec2(push.keys, push.queries) - 1;
    const vec2 reach = 0.5 * max(vec2(fwidth(at.x), fwidth(at.y)) - 1.0, 0.0);
    const ivec2 low = clamp(ivec2(at - reach), ivec2(0), last);
    const ivec2 high = clamp(ivec2(at + reach), low, min(low + 15, last));
    float weight = 0.0;
    for (int q = low.y; q <= high.y; ++q)
        for (int k = low.x; k <= high.x; ++k) weight = max(weight, push.map.at[uint(q) * push.keys + uint(k)]);
    vec3 c = heat(pow(weight, push.gamma));
    const uvec2 cell = uvec2(at);
    if (push.row < push.queries && cell.y == push.row) c = mix(c, vec3(1.0), 0.10);
    if (push.column < push.keys && cell.x == push.column) c = mix(c, vec3(1.0), 0.10);
    if (push.cell > 7.0) { // lines between cells
        const vec2 inside = fract(at) * push.cell;
        if (min(inside.x, inside.y) < 1.0) c = mix(c, vec3(0.10, 0.11, 0.14), 0.6);
    }
    color = vec4(c, 1.0);
}
