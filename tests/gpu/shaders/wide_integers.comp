// Every operation on 64-bit integers that without_int64() replaces, kResults results for each pair of numbers.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_GOOGLE_include_directive : require
#include "group.glsl"

layout(local_size_x = 32) in;
layout(constant_id = 0) const uint size = 5;

const uint kResults = 16;

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Wide { uint64_t at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Arguments {
    uint64_t x;
    uint64_t y;
    uint64_t results;
    uint count;
};
layout(push_constant) uniform Push { Arguments arguments; };

uint64_t largest(uint64_t a, uint64_t b) { return a > b ? a : b; }

void main() {
    const uint i = min(hekla_group() * 32 + gl_LocalInvocationID.x, arguments.count - 1);
    const uint64_t a = Wide(arguments.x).at[i], b = Wide(arguments.y + uint64_t(i) * 8ul).at[0];
    const uint amount = uint(b) & 63u;
    uint64_t sum = 0ul;
    for (uint k = 0; k < amount; ++k) sum += a;
    uint64_t r[kResults];
    r[0] = a + b;
    r[1] = a - b;
    r[2] = a * b;
    r[3] = a << amount;
    r[4] = a >> amount;
    r[5] = a << 13 ^ b >> 32;
    r[6] = (a & b) | ~b;
    r[7] = largest(a, b);
    r[8] = (a < b ? 1ul : 0ul) | (a <= b ? 2ul : 0ul) | (a > b ? 4ul : 0ul) | (a >= b ? 8ul : 0ul) |
           (a == b ? 16ul : 0ul) | (a != b ? 32ul : 0ul);
    r[9] = uint64_t(int64_t(int(uint(a))));
    r[10] = uint64_t(uint(a)) * uint64_t(uint(b));
    r[11] = packUint2x32(unpackUint2x32(a).yx);
    r[12] = sum;
    r[13] = a * uint64_t(size) + uint64_t(size) * 4ul;
    r[14] = uint64_t(uint(a >> 7)) + 0x123456789ABCDEF0ul;
    r[15] = a >> 0u;
    Wide results = Wide(arguments.results + uint64_t(i * kResults) * 8ul);
    for (uint k = 0; k < kResults; ++k) results.at[k] = r[k];
}
