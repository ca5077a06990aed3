#version 450
#extension GL_GOOGLE_include_directive : require
//! no-optimizer
//! variant lane ROWS=1
//! variant r1 ROWS=1 SUBGROUP
//! variant r4 ROWS=4 SUBGROUP
//! variant r16 ROWS=16 SUBGROUP
// GRU (Cho et al. 2014) and LSTM (Hochreiter and Schmidhuber 1997) over padded sequences, as PyTorch defines them. One
// matmul has computed the projection of the inputs; this kernel iterates over time, and each step reads the states that
// the previous step has written to y.
#include "recurrent/gates.glsl"

PUSH_RECORD(ForwardRecord);

// An index of [B, H] fits 32 bits, and is computed in them: a 64-bit product of uniform values that is added to an address
// crashes the compiler of NVK (Mesa 26.2; shaders/TRIED.md).
//
// Returns the address of the state before step s of a row; past the row's end, and at the first step without initial
// states, any readable address.
uint64_t state_before(ForwardRecord r, uint row, uint count, uint s) {
    if (INITIAL && s == 0u) return r.initial + uint64_t(row * r.hidden) * 4ul;
    const uint step = min(max(s, 1u) - 1u, max(count, 1u) - 1u);
    return r.y + (uint64_t(row) * r.time + token_of(step, count)) * r.hidden * 4ul;
}

void main() {
    ForwardRecord r = record;
    HEKLA_GROUP(group, r)
    const uint hidden = r.hidden, width = GATES * hidden, time = r.time;
    uint row[ROWS], count[ROWS];
    [[unroll]] for (uint i = 0u; i < ROWS; ++i) {
        row[i] = min(group * ROWS + i, r.batch - 1u);
        count[i] = length_of(r.lengths, row[i], time);
    }
    uint slot_rows[SLOTS], slot_counts[SLOTS];
    [[unroll]] for (uint q = 0u; q < SLOTS; ++q) {
        slot_rows[q] = min(group * ROWS + slot_row(q), r.batch - 1u);
        slot_counts[q] = length_of(r.lengths, slot_rows[q], time);
    }
    uint s = 0u;
    do {
        uint64_t states[ROWS], slots[SLOTS];
        [[unroll]] for (uint i = 0u; i < ROWS; ++i) states[i] = state_before(r, row[i], count[i], s);
        [[unroll]] for (uint q = 0u; q < SLOTS; ++q)
            slots[q] = state_before(r, slot_rows[q], slot_counts[q], s);
        HEKLA_EACH_TURN(turn, 1u, hidden, {
            const uint from = turn_from(turn, hidden);
            const uint unit = unit_of(from, hidden);
            const bool in_range = is_in_range(turn, from, hidden);
            float h[ROWS * 4];
            [[unroll]] for (uint i = 0u; i < ROWS * 4; ++i) h[i] = 0.0;
            if (INITIAL || s > 0u) {
                uint64_t columns[4];
                [[unroll]] for (uint j = 0u; j < 4u; ++j)
                    columns[j] = r.weight + uint64_t(min(j, GATES - 1u) * hidden + from) * 4ul;
                HEKLA_MULTIPLY(4u, GATES, states, slots, hidden, columns, uint64_t(width) * 4ul, h)
            }
            float bias[4];
            [[unroll]] for (uint j = 0u; j < 4u; ++j)
                bias[j] = load_units(r.bias, min(j, GATES - 1u) * hidden + from);
            [[unroll]] for (uint i = 0u; i < ROWS; ++i) {
                const bool is_token = s < count[i];
                const uint64_t token = uint64_t(row[i]) * time + token_of(s, count[i]);
                const uint64_t given = r.inputs + token * width * 4ul;
                const float h0 = h[i * 4u] + bias[0];
                const float h1 = h[i * 4u + 1u] + bias[1];
                const float h2 = h[i * 4u + 2u] + bias[2];
                const float x0 = load_units(given, from);
                const float x1 = load_units(given, from + hidden);
                const float x2 = load_units(given, from + 2u * hidden);
                float next;
                if (LSTM) {
                    const float h3 = h[i * 4u + 3u] + bias[3];
                    const float x3 = load_units(given, from + 3u * hidden);
                    float cell = 0.0;
                    if (s > 0u) cell = load_units(r.cells + (states[i] - r.y), from);
                    if (INITIAL_CELL && s == 0u)
                        cell = load_units(r.initial_cell + uint64_t(row[i] * hidden) * 4ul, from);
                    cell = sigmoid_(x1 + h1) * cell + sigmoid_(x0 + h0) * tanh_(x2 + h2);
                    next = sigmoid_(x3 + h3) * tanh_(cell);
                    if (in_range && group * ROWS + i < r.batch)
                        store_float(r.cells, token * hidden + unit, is_token ? cell : 0.0, kF32);
                } else {
                    float state = 0.0;
                    if (INITIAL || s > 0u) state = load_units(states[i], from);
                    const float z = sigmoid_(x1 + h1);
                    const float n = tanh_(x2 + sigmoid_(x0 + h0) * h2);
                    next = (1.0 - z) * n + z * state;
                }
                if (in_range && group * ROWS + i < r.batch)
                    store_shared(r.y, token * hidden + unit, is_token ? next : 0.0);
            }
        })
        memoryBarrierBuffer();
        barrier();
    } while (++s < time);

    [[unroll]] for (uint i = 0u; i < ROWS; ++i) {
        const uint64_t state = uint64_t(row[i] * hidden) * 4ul;
        const uint64_t at = (uint64_t(row[i]) * time + token_of(max(count[i], 1u) - 1u, count[i])) * hidden * 4ul;
        HEKLA_EACH_TURN(turn, 1u, hidden, {
            const uint from = turn_from(turn, hidden);
            float last = load_shared(r.y + at, uint64_t(unit_of(from, hidden)));
            float cell = 0.0;
            if (LSTM) cell = load_units(r.cells + at, from);
            if (count[i] == 0u) {
                last = 0.0;
                cell = 0.0;
                if (INITIAL) last = load_units(r.initial + state, from);
                if (INITIAL_CELL) cell = load_units(r.initial_cell + state, from);
            }
            if (is_in_range(turn, from, hidden) && group * ROWS + i < r.batch) {
                store_float(r.last + state, uint64_t(unit_of(from, hidden)), last, kF32);
                if (LSTM) store_float(r.last_cell + state, uint64_t(unit_of(from, hidden)), cell, kF32);
            }
        })
    }
}
