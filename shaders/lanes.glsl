// Kernels whose workgroup is one subgroup of S lanes (specialization constant 0), or, with HEKLA_INVOCATIONS_ID, whole
// subgroups with that constant's number of invocations. All lanes are active throughout. Sums and
// maxima over lanes are in a fixed order.
//
// How the lanes share a row, here S = 4, W = 2 and a row of 13 elements; the number is the lane that has the element:
//
//     element            0  1  2  3  4  5  6  7 | 8  9 10 11 12  -  -  -
//     without            0  0  1  1  2  2  3  3 | 0  0  1  1  2  2  3  3     a lane's W elements are neighbors: one load
//     UNIFORM_LOADS      0  1  2  3  0  1  2  3 | 0  1  2  3  0  1  2  3     lanes are neighbors: one load for all lanes
//                        base = 0                 base = 8
//
// An iteration covers S * W elements from `base` on (HEKLA_EACH_SHARE). In it a lane has vec2(element i, element
// second(i)), where HEKLA_SHARE declares i: load_part returns them, with `other` in place of elements past the row (-),
// and store_part stores them. With W = 1 the second element is never used.
//
// Variants for GPUs, with FOURS, have W = 4 neighbors a lane: rows of whole vectors that are aligned to four elements.
#ifndef HEKLA_LANES_GLSL
#define HEKLA_LANES_GLSL

#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(constant_id = 0) const uint S = 8;
#ifdef HEKLA_INVOCATIONS_ID
layout(local_size_x_id = HEKLA_INVOCATIONS_ID) in;
#else
layout(local_size_x_id = 0) in;
#endif

// Whether a load with the same address in all lanes is executed as one load (capability uniform_loads,
// engine/gpu/pipeline.hpp).
layout(constant_id = 31) const uint UNIFORM_LOADS = 0;

// Which lane this one is. Comparisons before the first loop stay constants for the driver; those that it finds in several
// loops become variables, and loads are no longer joined.
bool is_lane[S];
void compare_lanes() {
    if (UNIFORM_LOADS == 0) return;
    [[unroll]] for (uint i = 0; i < S; ++i) is_lane[i] = gl_SubgroupInvocationID == i;
}
#undef HEKLA_BEGIN
#define HEKLA_BEGIN compare_lanes();

// Returns element `lane` of the S floats at an address that is the same for all lanes. With UNIFORM_LOADS these are S loads
// that a driver combines into one. It reads all S, up to 60 bytes past the end, which the guard after every tensor covers.
float load_consecutive(uint64_t address) {
    if (UNIFORM_LOADS == 0) return Floats(address + gl_SubgroupInvocationID * 4ul).v[0];
    float x = Floats(address).v[0];
    [[unroll]] for (uint i = 1; i < S; ++i) x = mix(x, Floats(address).v[i], is_lane[i]);
    return x;
}

#ifdef STORAGE16
// The same for the bits of S elements of 16 bits each; reads up to 30 bytes past the end.
uint load_consecutive_16(uint64_t address) {
    if (UNIFORM_LOADS == 0) return uint(Words16(address + gl_SubgroupInvocationID * 2ul).v[0]);
    uint16_t bits = Words16(address).v[0];
    [[unroll]] for (uint i = 1; i < S; ++i) bits = mix(bits, Words16(address).v[i], is_lane[i]);
    return uint(bits);
}
#endif
float load_consecutive_of(uint64_t address, uint storage) {
#ifdef STORAGE16
    if (storage != kF32) return unpack_half(storage, load_consecutive_16(address));
#endif
    return load_consecutive(address);
}

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

// Returns the second element of a lane whose first is i, as pictured above.
uint second(uint i) { return i + (UNIFORM_LOADS != 0 ? S : 1); }
#define HEKLA_SHARE(i, base, W) const uint i = (base) + gl_SubgroupInvocationID * (UNIFORM_LOADS != 0 ? 1 : (W));

#ifdef FOURS
#include "fours.glsl"
#define PART vec4
const uint kPart = 4;
uint element_of(uint i, uint c) { return i + c; } // of component c of a part whose first element is i
#else
#define PART vec2
const uint kPart = 2;
uint element_of(uint i, uint c) { return c == 0 ? i : second(i); }
#endif
float sum_of(vec2 x) { return x.x + x.y; }
float sum_of(vec4 x) { return (x.x + x.y) + (x.z + x.w); }
float max_of(vec2 x) { return max(x.x, x.y); }
float max_of(vec4 x) { return max(max(x.x, x.y), max(x.z, x.w)); }

#ifdef FOURS
// As below. What the kernel writes is loaded with load_written().
PART load_part_of(uint64_t row, uint base, uint width, uint W, float other, uint type) {
    HEKLA_SHARE(i, base, W)
    const vec4 x = given_four(row, min(i, width - 4), type);
    return i < width ? x : vec4(other);
}
PART load_part(uint64_t row, uint base, uint width, uint W, float other) {
    return load_part_of(row, base, width, W, other, kF32);
}
PART load_written(uint64_t row, uint base, uint width, uint W) {
    HEKLA_SHARE(i, base, W)
    return uintBitsToFloat(Fours(row + min(i, width - 4) * 4).v);
}
void store_part_of(uint64_t row, uint base, uint width, uint W, PART x, uint type) {
    HEKLA_SHARE(i, base, W)
    if (i < width) store_four(row, i, x, type);
}
void store_part(uint64_t row, uint base, uint width, uint W, PART x) { store_part_of(row, base, width, W, x, kF32); }
#else
// Loads a lane's share of a row of `width` elements in the iteration that begins at `base`.
vec2 load_part(uint64_t row, uint base, uint width, uint W, float other) {
    HEKLA_SHARE(i, base, W)
    if (UNIFORM_LOADS != 0) {
        const float x = load_consecutive(row + uint64_t(min(base, width - 1)) * 4ul);
        const float y = W == 2 ? load_consecutive(row + uint64_t(min(base + S, width - 1)) * 4ul) : other;
        return vec2(i < width ? x : other, i + S < width ? y : other);
    }
    vec2 x = W == 2 ? load_pair(row, uint64_t(min(i, width - 2)), kF32)
                    : vec2(load_float(row, uint64_t(min(i, width - 1)), kF32), other);
    return i < width ? x : vec2(other);
}
void store_part(uint64_t row, uint base, uint width, uint W, vec2 x) {
    HEKLA_SHARE(i, base, W)
    if (UNIFORM_LOADS != 0) {
        if (i < width) store_float(row, uint64_t(i), x.x, kF32);
        if (W == 2 && i + S < width) store_float(row, uint64_t(i + S), x.y, kF32);
    } else if (i < width) {
        if (W == 2) store_pair(row, uint64_t(i), x);
        else store_float(row, uint64_t(i), x.x, kF32);
    }
}

// The same for rows stored as `type`, which is not float32 only with STORAGE16.
vec2 load_part_of(uint64_t row, uint base, uint width, uint W, float other, uint type) {
#ifdef STORAGE16
    if (type != kF32) {
        HEKLA_SHARE(i, base, W)
        if (W == 2 && UNIFORM_LOADS == 0) {
            const vec2 x = load_pair(row, uint64_t(min(i, width - 2)), type);
            return i < width ? x : vec2(other);
        }
        const float x = load_float(row, uint64_t(min(i, width - 1)), type);
        const float y = W == 2 ? load_float(row, uint64_t(min(second(i), width - 1)), type) : other;
        return vec2(i < width ? x : other, second(i) < width ? y : other);
    }
#endif
    return load_part(row, base, width, W, other);
}
void store_part_of(uint64_t row, uint base, uint width, uint W, vec2 x, uint type) {
#ifdef STORAGE16
    if (type != kF32) {
        HEKLA_SHARE(i, base, W)
        if (W == 2 && UNIFORM_LOADS == 0) {
            if (i < width) Words(row + uint64_t(i) * 2ul).v[0] = pack_half(type, x.x) | pack_half(type, x.y) << 16;
            return;
        }
        if (i < width) store_float(row, uint64_t(i), x.x, type);
        if (W == 2 && second(i) < width) store_float(row, uint64_t(second(i)), x.y, type);
        return;
    }
#endif
    store_part(row, base, width, W, x);
}
vec2 load_written(uint64_t row, uint base, uint width, uint W) { return load_part(row, base, width, W, 0.0); }
#endif

// Run `body` for each of a lane's parts v of a float32 row x (and u of a row y). With FOURS and HELD iterations, the parts
// come from registers, where HEKLA_HOLD has read the row.
#define HEKLA_EACH_BOTH(v, x, u, y, i, width, W, body)                                                                 \
    HEKLA_EACH_SHARE(i, width, W, {                                                                                    \
        const PART v = load_part(x, i, width, W, 0.0);                                                                 \
        const PART u = load_part(y, i, width, W, 0.0);                                                                 \
        body                                                                                                           \
    })
#ifdef FOURS
#define HEKLA_HOLD(held, x, width, W, HELD)                                                                            \
    PART held[(HELD) == 0 ? 1 : (HELD)];                                                                               \
    [[unroll]] for (uint hekla_p = 0; hekla_p < (HELD); ++hekla_p)                                                     \
        held[hekla_p] = load_part(x, hekla_p * S * (W), width, W, 0.0);
#define HEKLA_EACH_PART(v, held, x, i, width, W, HELD, other, body)                                                    \
    [[unroll]] for (uint hekla_p = 0; hekla_p < (HELD); ++hekla_p) {                                                   \
        const uint i = hekla_p * S * (W);                                                                              \
        const PART v = i + gl_SubgroupInvocationID * (W) < (width) ? held[hekla_p] : PART(other);                      \
        body                                                                                                           \
    }                                                                                                                  \
    if ((HELD) == 0) HEKLA_EACH_SHARE(i, width, W, { const PART v = load_part(x, i, width, W, other); body })
#define HEKLA_EACH_PAIR(v, held_v, x, u, held_u, y, i, width, W, HELD, body)                                           \
    [[unroll]] for (uint hekla_p = 0; hekla_p < (HELD); ++hekla_p) {                                                   \
        const uint i = hekla_p * S * (W);                                                                              \
        const PART v = held_v[hekla_p];                                                                                \
        const PART u = held_u[hekla_p];                                                                                \
        body                                                                                                           \
    }                                                                                                                  \
    if ((HELD) == 0) HEKLA_EACH_BOTH(v, x, u, y, i, width, W, body)
#else
#define HEKLA_HOLD(held, x, width, W, HELD)
#define HEKLA_EACH_PAIR(v, held_v, x, u, held_u, y, i, width, W, HELD, body) HEKLA_EACH_BOTH(v, x, u, y, i, width, W, body)
#define HEKLA_EACH_PART(v, held, x, i, width, W, HELD, other, body)                                                    \
    HEKLA_EACH_SHARE(i, width, W, { const PART v = load_part(x, i, width, W, other); body })
#endif

// Loads two elements per lane of the 2 S floats at an address that is even and the same for all lanes.
vec2 load_two(uint64_t address) {
    if (UNIFORM_LOADS != 0) return vec2(load_consecutive(address), load_consecutive(address + S * 4ul));
    return load_pair(address, uint64_t(gl_SubgroupInvocationID * 2), kF32);
}
void store_two(uint64_t address, vec2 x) {
    if (UNIFORM_LOADS != 0) {
        store_float(address, uint64_t(gl_SubgroupInvocationID), x.x, kF32);
        store_float(address, uint64_t(gl_SubgroupInvocationID + S), x.y, kF32);
    } else {
        store_pair(address, uint64_t(gl_SubgroupInvocationID * 2), x);
    }
}

// Runs `body` for each iteration over a row: `base` is its first element.
#define HEKLA_EACH_SHARE(base, width, W, body)                                                                         \
    {                                                                                                                  \
        uint base = 0;                                                                                                 \
        do {                                                                                                           \
            body                                                                                                       \
            base += S * (W);                                                                                           \
        } while (base < (width));                                                                                      \
    }

// Runs `body` for each of a workgroup's rows: one where loads are uniform, since the driver joins the loads of a row only in
// a loop that is not inside another.
#define HEKLA_EACH_ROW(row, group, rows, body)                                                                         \
    {                                                                                                                  \
        uint row = (group) * (UNIFORM_LOADS != 0 ? 1 : kRowsPerGroup);                                                 \
        const uint hekla_end = min(row + kRowsPerGroup, (rows));                                                       \
        do {                                                                                                           \
            body                                                                                                       \
        } while (UNIFORM_LOADS == 0 && ++row < hekla_end);                                                             \
    }

#endif
