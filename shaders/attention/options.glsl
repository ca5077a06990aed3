// Shared by the attention kernels with one lane per row: a lane is a query (forward, dq) or a key (dk, dv); the other
// side is the same for all lanes. With R = 2 a lane has two rows, S apart, that use each loaded element of the other side.
#include "common.glsl"
#include "runtime.h"
#include "philox.glsl"
#include "math.glsl"
#include "lanes.glsl"
#include "attention/record.h"

layout(constant_id = 1) const uint D = 32;       // of queries and keys
layout(constant_id = 2) const uint DV = 32;      // of values
layout(constant_id = 3) const uint W = 1;        // elements per load: with 2 D, DV and all strides are even
layout(constant_id = 4) const uint BLOCK = 4;    // of the other side, processed together
layout(constant_id = 5) const uint OPTIONS = 0;

#ifndef R
#define R 1
#endif

#define given_int(address, i) load_int(address, i)
#define given_float(address, i) load_float(address, i, kF32)
#include "attention/scores.glsl"

// BLOCK rows of `width` elements for all lanes. Where a load from one address is cheap (UNIFORM_LOADS, float32), the
// elements are loaded when they are used. Otherwise they are distributed over the lanes: element e of the block is in
// share e / (S W) of lane (e / W) mod S. Rows past `rows` repeat the last.
#define DIRECT(type) (UNIFORM_LOADS != 0 && (type) == kF32)
#define SHARES(width) ((BLOCK * (width) + S * W - 1) / (S * W))
#define LOAD_SHARES(shares, address, stride, first, rows, width, type)                                                 \
    vec2 shares[SHARES(width)];                                                                                        \
    uint64_t shares##_rows[BLOCK];                                                                                     \
    [[unroll]] for (uint hekla_b = 0; hekla_b < BLOCK; ++hekla_b)                                                      \
        shares##_rows[hekla_b] = (address) + uint64_t(min((first) + hekla_b, (rows) - 1) * (stride)) * 4ul;            \
    if (!DIRECT(type)) {                                                                                               \
        [[unroll]] for (uint hekla_q = 0; hekla_q < SHARES(width); ++hekla_q) {                                        \
            const uint hekla_e = min((hekla_q * S + gl_SubgroupInvocationID) * W, BLOCK * (width) - W);                \
            const uint64_t hekla_at =                                                                                  \
                uint64_t(min((first) + hekla_e / (width), (rows) - 1)) * (stride) + hekla_e % (width);                 \
            shares[hekla_q] =                                                                                          \
                W == 2 ? load_pair(address, hekla_at, type) : vec2(load_float(address, hekla_at, type), 0.0);          \
        }                                                                                                              \
    }
#define SHARED(shares, row, column, width, type)                                                                       \
    (DIRECT(type) ? load_float(shares##_rows[row], uint64_t(column), kF32)                                             \
                  : subgroupBroadcast(W == 2 && ((row) * (width) + (column)) % 2 == 1                                  \
                                          ? shares[((row) * (width) + (column)) / (S * W)].y                           \
                                          : shares[((row) * (width) + (column)) / (S * W)].x,                          \
                                      (((row) * (width) + (column)) / W) % S))

// Between two uses of the same shares. Otherwise a driver loads each element once and keeps all of them for the second
// use, which is in memory: BLOCK * width vectors that are stored and loaded again, in place of loads of one element.
#define FORGET_SHARES()                                                                                                \
    if (UNIFORM_LOADS != 0) memoryBarrierBuffer();

// Loads a row of this lane to row[first], ... .
#define LOAD_ROW(row, first, address, width, factor, type)                                                                   \
    [[unroll]] for (uint hekla_d = 0; hekla_d < (width); hekla_d += W) {                                               \
        const vec2 hekla_x = W == 2 ? load_pair(address, uint64_t(hekla_d), type)                                      \
                                    : vec2(load_float(address, uint64_t(hekla_d), type), 0.0);                         \
        row[(first) + hekla_d] = hekla_x.x * (factor);                                                                           \
        if (W == 2) row[(first) + hekla_d + W - 1] = hekla_x.y * (factor);                                                       \
    }
#define STORE_ROW(row, first, address, width, factor, type)                                                                   \
    [[unroll]] for (uint hekla_d = 0; hekla_d < (width); hekla_d += W) {                                               \
        if (W == 2) store_pair_of(address, uint64_t(hekla_d), vec2(row[(first) + hekla_d], row[(first) + hekla_d + W - 1]) * (factor), type); \
        else store_float(address, uint64_t(hekla_d), row[(first) + hekla_d] * (factor), type);                                   \
    }

// With kGroups, blocks of the other side in which no row has a group of this subgroup's rows are left out. Rounding to
// float keeps the order of groups, so that no block with a common group is.
vec2 range_of_groups(float least, float greatest) { return vec2(-lanes_max(-least), lanes_max(greatest)); }
float group_at(uint64_t groups, uint row) { return float(given_int(groups, uint64_t(row))); }
// Returns where the first block at or after `at` begins that has a group within `own`, or a place from `end` on.
uint next_block(uint64_t groups, uint at, uint end, uint rows, vec2 own) {
    bool meets = false;
    while (at < end && !meets) {
        vec2 block = vec2(kInfinity, -kInfinity);
        [[unroll]] for (uint n = 0; n < BLOCK; ++n) {
            const float group = group_at(groups, min(at + n, rows - 1));
            block = vec2(min(block.x, group), max(block.y, group));
        }
        meets = block.x <= own.y && block.y >= own.x;
        if (!meets) at += BLOCK;
    }
    return at;
}
