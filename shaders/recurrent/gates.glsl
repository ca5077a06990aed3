// What the recurrent kernels share: a workgroup does one row of the batch and walks through time; its lanes share the
// units of the state. Flags (specialization constant 1) say which layer this is and which tensors there are.
#ifndef HEKLA_GATES_GLSL
#define HEKLA_GATES_GLSL

#include "common.glsl"
#include "math.glsl"

layout(constant_id = 0) const uint LANES = 8;
layout(constant_id = 1) const uint FLAGS = 0;
layout(local_size_x_id = 0) in;

const bool LSTM = (FLAGS & 1u) != 0u;
const bool REVERSE = (FLAGS & 2u) != 0u;
const bool LENGTHS = (FLAGS & 4u) != 0u;
const bool INITIAL = (FLAGS & 8u) != 0u;
const bool INITIAL_CELL = (FLAGS & 16u) != 0u;
const bool DY = (FLAGS & 32u) != 0u;
const bool DLAST = (FLAGS & 64u) != 0u;
const bool DLAST_CELL = (FLAGS & 128u) != 0u;
const uint GATES = LSTM ? 4u : 3u;

// What one lane writes and others of its workgroup read, after a barrier.
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Shared { float v[]; };
float load_shared(uint64_t address, uint64_t i) { return Shared(address + i * 4ul).v[0]; }
void store_shared(uint64_t address, uint64_t i, float x) { Shared(address + i * 4ul).v[0] = x; }

// How many tokens of a row are real. What lies outside is an error of the interpreter's; here it is clamped.
uint length_of(uint64_t lengths, uint row, uint time) {
    if (LENGTHS) return uint(clamp(load_int(lengths, uint64_t(row)), 0, int(time)));
    return time;
}

// The token of a row that step s reads; past the end of the row the padding itself, so that every token has its step.
uint token_of(uint s, uint count) { return REVERSE && s < count ? count - 1u - s : s; }

#define HEKLA_EACH_UNIT(u, live, hidden, body)                                                                         \
    {                                                                                                                  \
        uint hekla_unit = gl_LocalInvocationIndex;                                                                     \
        uint hekla_first = 0u;                                                                                         \
        do {                                                                                                           \
            const bool live = hekla_unit < (hidden);                                                                   \
            const uint u = min(hekla_unit, (hidden) - 1u);                                                             \
            body                                                                                                       \
            hekla_unit += LANES;                                                                                       \
            hekla_first += LANES;                                                                                      \
        } while (hekla_first < (hidden));                                                                              \
    }

#endif
