// Shared by the recurrent kernels. A workgroup processes ROWS rows of the batch and iterates over time; its lanes share
// the units of the state. Flags (specialization constant 1) select the layer and the tensors that exist. A step is a
// product of the rows' states and a matrix: the more rows, the more often a loaded weight is used. With SUBGROUP a
// workgroup is one subgroup, and without uniform loads its lanes load states together and exchange them by broadcasts
// (shaders/TRIED.md); without SUBGROUP a lane is a unit.
#ifndef HEKLA_GATES_GLSL
#define HEKLA_GATES_GLSL

#include "common.glsl"
#ifdef SUBGROUP
#include "lanes.glsl"
const uint LANES = S;
#else
layout(constant_id = 0) const uint LANES = 8;
layout(local_size_x_id = 0) in;
#endif
#include "math.glsl"
#include "recurrent/record.h"

layout(constant_id = 1) const uint FLAGS = 0;

const bool LSTM = (FLAGS & kLstm) != 0u;
const bool REVERSE = (FLAGS & kReverse) != 0u;
const bool LENGTHS = (FLAGS & kLengths) != 0u;
const bool INITIAL = (FLAGS & kInitial) != 0u;
const bool INITIAL_CELL = (FLAGS & kInitialCell) != 0u;
const bool DY = (FLAGS & kDy) != 0u;
const bool DLAST = (FLAGS & kDlast) != 0u;
const bool DLAST_CELL = (FLAGS & kDlastCell) != 0u;
const uint GATES = LSTM ? 4u : 3u;

// Memory that one lane writes and others of its workgroup read, after a barrier.
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Shared { float v[]; };
float load_shared(uint64_t address, uint64_t i) { return Shared(address + i * 4ul).v[0]; }
void store_shared(uint64_t address, uint64_t i, float x) { Shared(address + i * 4ul).v[0] = x; }

// The number of tokens of a row. A length out of range is an error in the interpreter; here it is clamped.
uint length_of(uint64_t lengths, uint row, uint time) {
    if (LENGTHS) return uint(clamp(load_int(lengths, uint64_t(row)), 0, int(time)));
    return time;
}

// Returns the token of a row that step s reads; past the end of the row the padding itself, so that every token has a
// step.
uint token_of(uint s, uint count) { return REVERSE && s < count ? count - 1u - s : s; }

// An iteration (turn) of the lanes over the units of a state. `from`: the start of its vector (with SUBGROUP; earlier
// if it would reach past the last unit), or this lane's unit. `unit`: this lane's unit, which is `in_range` if no other
// iteration has it.
// no other iteration has it.
#ifdef SUBGROUP
float load_units(uint64_t address, uint from) { return load_consecutive(address + uint64_t(from) * 4ul); }
uint turn_from(uint turn, uint hidden) { return min(turn, max(hidden, LANES) - LANES); }
uint unit_of(uint from, uint hidden) { return min(from + gl_SubgroupInvocationID, hidden - 1u); }
bool is_in_range(uint turn, uint from, uint hidden) {
    const uint unit = from + gl_SubgroupInvocationID;
    return unit >= turn && unit < hidden;
}
#else
float load_units(uint64_t address, uint from) { return Floats(address + uint64_t(from) * 4ul).v[0]; }
uint turn_from(uint turn, uint hidden) { return min(turn + gl_LocalInvocationIndex, hidden - 1u); }
uint unit_of(uint from, uint hidden) { return from; }
bool is_in_range(uint turn, uint from, uint hidden) { return turn + gl_LocalInvocationIndex < hidden; }
#endif

#define HEKLA_EACH_TURN(turn, vectors, hidden, body)                                                                   \
    {                                                                                                                  \
        uint turn = 0u;                                                                                                \
        do {                                                                                                           \
            body                                                                                                       \
            turn += LANES * (vectors);                                                                                 \
        } while (turn < (hidden));                                                                                     \
    }

#ifdef ROWS
// Elements of the rows' states (or gates) per load in a product.
const uint STEP = 4u;
#ifdef SUBGROUP
const uint SLOTS = (ROWS * STEP + S - 1u) / S;
#else
const uint SLOTS = 1u;
#endif

// Returns the workgroup's row that the lane's slot q belongs to, and its element of a step.
uint slot_row(uint q) {
#ifdef SUBGROUP
    return min(q * S + gl_SubgroupInvocationID, ROWS * STEP - 1u) / STEP;
#else
    return 0u;
#endif
}
uint slot_element(uint q) {
#ifdef SUBGROUP
    return min(q * S + gl_SubgroupInvocationID, ROWS * STEP - 1u) % STEP;
#else
    return 0u;
#endif
}

// Adds to sum [ROWS, N] the product of rows [ROWS, depth], each at its address (`slots` for the lanes' slots), and a matrix
// of `depth` rows, `step` bytes apart, whose N vectors of columns begin at `columns`.
#define HEKLA_MULTIPLY(N, used, rows, slots, depth, columns, step, sum)                                                \
    {                                                                                                                  \
        uint k = 0u;                                                                                                   \
        do {                                                                                                           \
            float x[ROWS * STEP];                                                                                      \
            HEKLA_LOAD_ROWS(rows, slots, depth, x)                                                                     \
            float y[STEP * N];                                                                                         \
            [[unroll]] for (uint kk = 0u; kk < STEP; ++kk) {                                                           \
                const uint64_t down = uint64_t(min(k + kk, (depth) - 1u)) * (step);                                    \
                [[unroll]] for (uint j = 0u; j < N; ++j)                                                               \
                    y[kk * N + j] = j < (used) ? load_units(columns[j] + down, 0u) : 0.0;                              \
            }                                                                                                          \
            [[unroll]] for (uint i = 0u; i < ROWS; ++i) {                                                              \
                float part[N];                                                                                         \
                [[unroll]] for (uint j = 0u; j < N; ++j) part[j] = 0.0;                                                \
                [[unroll]] for (uint kk = 0u; kk < STEP; ++kk) {                                                       \
                    const float factor = HEKLA_FACTOR(x, i * STEP + kk);                                               \
                    [[unroll]] for (uint j = 0u; j < N; ++j) part[j] = fma(factor, y[kk * N + j], part[j]);            \
                }                                                                                                      \
                [[unroll]] for (uint j = 0u; j < N; ++j) sum[i * N + j] += part[j];                                    \
            }                                                                                                          \
            k += STEP;                                                                                                 \
        } while (k < (depth));                                                                                         \
    }
#ifdef SUBGROUP
// With UNIFORM_LOADS every element by itself; otherwise x contains the lanes' slots.
#define HEKLA_LOAD_ROWS(rows, slots, depth, x)                                                                         \
    if (UNIFORM_LOADS != 0u) {                                                                                         \
        [[unroll]] for (uint i = 0u; i < ROWS * STEP; ++i) {                                                           \
            const float value = load_shared(rows[i / STEP], uint64_t(min(k + i % STEP, (depth) - 1u)));                \
            x[i] = k + i % STEP < (depth) ? value : 0.0;                                                               \
        }                                                                                                              \
    } else {                                                                                                           \
        [[unroll]] for (uint q = 0u; q < SLOTS; ++q) {                                                                 \
            const uint at = k + slot_element(q);                                                                       \
            const float value = load_shared(slots[q], uint64_t(min(at, (depth) - 1u)));                                \
            x[q] = at < (depth) ? value : 0.0;                                                                         \
        }                                                                                                              \
    }
#define HEKLA_FACTOR(x, e) (UNIFORM_LOADS != 0u ? x[e] : subgroupBroadcast(x[(e) / S], (e) % S))
#else
#define HEKLA_LOAD_ROWS(rows, slots, depth, x)                                                                         \
    [[unroll]] for (uint i = 0u; i < ROWS * STEP; ++i) {                                                               \
        const float value = load_shared(rows[i / STEP], uint64_t(min(k + i % STEP, (depth) - 1u)));                    \
        x[i] = k + i % STEP < (depth) ? value : 0.0;                                                                   \
    }
#define HEKLA_FACTOR(x, e) x[e]
#endif
#endif

#endif
