// The whole viewport as two triangles.
#version 450
layout(location = 0) out vec2 place; // 0 to 1, from the upper left
void main() {
    const vec2 corners[6] = vec2[](vec2(0, 0), vec2(1, 0), vec2(1, 1), vec2(0, 0), vec2(1, 1), vec2(0, 1));
    place = corners[gl_VertexIndex];
    gl_Position = vec4(place * 2.0 - 1.0, 0.0, 1.0);
}
