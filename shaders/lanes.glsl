// Kernels whose workgroup is one subgroup of S lanes (specialization constant 0), all lanes active throughout. Sums and
// maxima over lanes in a fixed order.
#ifndef HEKLA_LANES_GLSL
#define HEKLA_LANES_GLSL

#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(constant_id = 0) const uint S = 8;
layout(local_size_x_id = 0) in;

// Narrow subgroups add lane by lane, by broadcasts from constant lanes (cheap on a CPU); wide ones by a butterfly.
float lanes_sum(float x) {
    if (S <= 16) {
        float y = subgroupBroadcast(x, 0);
        [[unroll]] for (uint i = 1; i < S; ++i) y += subgroupBroadcast(x, i);
        return y;
    }
    [[unroll]] for (uint step = 1; step < S; step *= 2) x += subgroupShuffleXor(x, step);
    return x;
}
float lanes_max(float x) {
    if (S <= 16) {
        float y = subgroupBroadcast(x, 0);
        [[unroll]] for (uint i = 1; i < S; ++i) y = max(y, subgroupBroadcast(x, i));
        return y;
    }
    [[unroll]] for (uint step = 1; step < S; step *= 2) x = max(x, subgroupShuffleXor(x, step));
    return x;
}

// Element i, or with W = 2 elements i and i + 1, of a row of `width`; what lies past it is `other`.
vec2 load_part(uint64_t row, uint i, uint width, uint W, float other) {
    vec2 x = W == 2 ? load_pair(row, uint64_t(min(i, width - 2)), kF32)
                    : vec2(load_float(row, uint64_t(min(i, width - 1)), kF32), other);
    return i < width ? x : vec2(other);
}
void store_part(uint64_t row, uint i, uint width, uint W, vec2 x) {
    if (i < width) {
        if (W == 2) store_pair(row, uint64_t(i), x);
        else store_float(row, uint64_t(i), x.x, kF32);
    }
}

// Runs `body` for each share `i` of a row that is this lane's, W elements a share.
#define HEKLA_EACH_SHARE(i, width, W, body)                                                                            \
    {                                                                                                                  \
        uint hekla_base = 0;                                                                                           \
        do {                                                                                                           \
            const uint i = hekla_base + gl_SubgroupInvocationID * (W);                                                 \
            body                                                                                                       \
            hekla_base += S * (W);                                                                                     \
        } while (hekla_base < (width));                                                                                \
    }

// Rows that a workgroup does: kRowsPerGroup of engine/program/lower_common.hpp.
const uint kRows = 4;
#define HEKLA_EACH_ROW(row, group, rows, body)                                                                         \
    {                                                                                                                  \
        uint row = (group) * kRows;                                                                                    \
        const uint hekla_end = min(row + kRows, (rows));                                                               \
        do {                                                                                                           \
            body                                                                                                       \
        } while (++row < hekla_end);                                                                                   \
    }

#endif
