// Philox 4x32-10 as in engine/base/philox.hpp, and the word of each element: element e of example b uses word e mod 4
// of philox({e / 4, first_example + b, step, stream}, {seed low, seed high}).
#ifndef HEKLA_PHILOX_GLSL
#define HEKLA_PHILOX_GLSL

uvec4 philox(uvec4 c, uvec2 k) {
    [[unroll]] for (int round = 0; round < 10; ++round) {
        uint high_a, low_a, high_b, low_b;
        umulExtended(0xD2511F53u, c.x, high_a, low_a);
        umulExtended(0xCD9E8D57u, c.z, high_b, low_b);
        c = uvec4(high_b ^ c.y ^ k.x, low_b, high_a ^ c.w ^ k.y, low_a);
        k += uvec2(0x9E3779B9u, 0xBB67AE85u);
    }
    return c;
}

// Returns the four words of elements 4 * quad .. 4 * quad + 3 of an example.
uvec4 random_quad(uvec4 seed_step_first, uint quad, uint example, uint stream) {
    return philox(uvec4(quad, seed_step_first.w + example, seed_step_first.z, stream), seed_step_first.xy);
}
uint random_word(uvec4 seed_step_first, uint element, uint example, uint stream) {
    uvec4 words = random_quad(seed_step_first, element >> 2, example, stream);
    uint i = element & 3u;
    return i < 2u ? (i == 0u ? words.x : words.y) : (i == 2u ? words.z : words.w);
}

#endif
