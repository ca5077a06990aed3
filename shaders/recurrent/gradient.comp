#version 450
#extension GL_GOOGLE_include_directive : require
//! no-optimizer
//! variant lane ROWS=1 VECTORS=1
//! variant r1 ROWS=1 VECTORS=4 SUBGROUP
//! variant r4 ROWS=4 VECTORS=4 SUBGROUP
//! variant r16 ROWS=16 VECTORS=4 SUBGROUP
// Gradients of GRU and LSTM through time, for both projections of every token and the initial states. Matmuls of these
// give the gradients of inputs and weights. dinitial holds d, the gradient of the state after the current step.
#include "recurrent/gates.glsl"

PUSH_RECORD(GradientRecord);

void main() {
    GradientRecord r = record;
    HEKLA_GROUP(group, r)
    const uint hidden = r.hidden, width = GATES * hidden, time = r.time;
    const uint begin = group * ROWS, end = min(begin + ROWS, r.batch);
    uint row = begin;
    do {
        const uint64_t state0 = uint64_t(row) * hidden;
        HEKLA_EACH_TURN(turn, 1u, hidden, {
            const uint from = turn_from(turn, hidden);
            const uint64_t u = state0 + unit_of(from, hidden);
            float d = 0.0;
            float dcell = 0.0;
            if (DLAST) d = load_float(r.dlast, u, kF32);
            if (DLAST_CELL) dcell = load_float(r.dlast_cell, u, kF32);
            if (is_in_range(turn, from, hidden)) {
                store_float(r.dinitial, u, d, kF32);
                if (LSTM) store_float(r.dinitial_cell, u, dcell, kF32);
            }
        })
    } while (++row < end);

    uint rows[ROWS], count[ROWS];
    [[unroll]] for (uint i = 0u; i < ROWS; ++i) {
        rows[i] = min(begin + i, r.batch - 1u);
        count[i] = length_of(r.lengths, rows[i], time);
    }
    uint slot_rows[SLOTS], slot_counts[SLOTS];
    [[unroll]] for (uint q = 0u; q < SLOTS; ++q) {
        slot_rows[q] = min(begin + slot_row(q), r.batch - 1u);
        slot_counts[q] = length_of(r.lengths, slot_rows[q], time);
    }
    uint left = time;
    do {
        const uint s = left - 1u;
        row = begin;
        do {
            const uint many = length_of(r.lengths, row, time);
            const bool is_token = s < many;
            const uint token = row * time + token_of(s, many);
            const uint64_t state0 = uint64_t(row) * hidden;
            HEKLA_EACH_TURN(turn, 1u, hidden, {
                const uint from = turn_from(turn, hidden);
                const uint u = unit_of(from, hidden);
                const bool in_range = is_in_range(turn, from, hidden);
                const uint64_t at = uint64_t(token) * width + u;
                const uint64_t unit = uint64_t(token) * hidden + u;
                float d = load_float(r.dinitial, state0 + u, kF32);
                if (DY) d += load_float(r.dy, unit, kF32);
                const float x0 = load_float(r.inputs, at, kF32);
                const float x1 = load_float(r.inputs, at + hidden, kF32);
                const float x2 = load_float(r.inputs, at + 2u * hidden, kF32);
                const float h0 = load_float(r.hiddens, at, kF32);
                const float h1 = load_float(r.hiddens, at + hidden, kF32);
                const float h2 = load_float(r.hiddens, at + 2u * hidden, kF32);
                vec4 dgates = vec4(0.0); // of the inputs' projection
                float dhidden2 = 0.0;
                float through = 0.0;     // gradient of the previous state, without the part through the projection
                if (LSTM) {
                    const float i = sigmoid_(x0 + h0);
                    const float f = sigmoid_(x1 + h1);
                    const float g = tanh_(x2 + h2);
                    const float o = sigmoid_(load_float(r.inputs, at + 3u * hidden, kF32)
                                             + load_float(r.hiddens, at + 3u * hidden, kF32));
                    const float squashed = tanh_(load_float(r.cells, unit, kF32));
                    const float dcell =
                        load_float(r.dinitial_cell, state0 + u, kF32) + d * o * (1.0 - squashed * squashed);
                    dgates.x = dcell * g * i * (1.0 - i);
                    dgates.y = dcell * load_float(r.before_cells, unit, kF32) * f * (1.0 - f);
                    dgates.z = dcell * i * (1.0 - g * g);
                    dgates.w = d * squashed * o * (1.0 - o);
                    dhidden2 = dgates.z;
                    if (in_range && is_token) store_float(r.dinitial_cell, state0 + u, dcell * f, kF32);
                } else {
                    const float reset = sigmoid_(x0 + h0);
                    const float z = sigmoid_(x1 + h1);
                    const float n = tanh_(x2 + reset * h2);
                    const float dn = d * (1.0 - z) * (1.0 - n * n);
                    dgates.x = dn * h2 * reset * (1.0 - reset);
                    dgates.y = d * (load_float(r.before, unit, kF32) - n) * z * (1.0 - z);
                    dgates.z = dn;
                    dhidden2 = dn * reset;
                    through = d * z;
                }
                if (!is_token) {
                    dgates = vec4(0.0);
                    dhidden2 = 0.0;
                }
                if (in_range) {
                    store_shared(r.dhiddens, at, dgates.x);
                    store_shared(r.dhiddens, at + hidden, dgates.y);
                    store_shared(r.dhiddens, at + 2u * hidden, dhidden2);
                    if (LSTM) {
                        store_shared(r.dhiddens, at + 3u * hidden, dgates.w);
                    } else {
                        store_float(r.dinputs, at, dgates.x, kF32);
                        store_float(r.dinputs, at + hidden, dgates.y, kF32);
                        store_float(r.dinputs, at + 2u * hidden, dgates.z, kF32);
                    }
                    if (is_token) store_float(r.dinitial, state0 + u, through, kF32);
                }
            })
        } while (++row < end);
        memoryBarrierBuffer();
        barrier();
        uint64_t gates[ROWS], slots[SLOTS];
        [[unroll]] for (uint i = 0u; i < ROWS; ++i)
            gates[i] = r.dhiddens + (uint64_t(rows[i]) * time + token_of(s, count[i])) * width * 4ul;
        [[unroll]] for (uint q = 0u; q < SLOTS; ++q)
            slots[q] = r.dhiddens + (uint64_t(slot_rows[q]) * time + token_of(s, slot_counts[q])) * width * 4ul;
        HEKLA_EACH_TURN(turn, VECTORS, hidden, {
            uint from[VECTORS];
            uint64_t columns[VECTORS];
            [[unroll]] for (uint j = 0u; j < VECTORS; ++j) {
                from[j] = turn_from(turn + j * LANES, hidden);
                columns[j] = r.weight + uint64_t(from[j]) * 4ul;
            }
            float sum[ROWS * VECTORS];
            [[unroll]] for (uint i = 0u; i < ROWS * VECTORS; ++i) sum[i] = 0.0;
            HEKLA_MULTIPLY(VECTORS, VECTORS, gates, slots, width, columns, uint64_t(hidden) * 4ul, sum)
            [[unroll]] for (uint i = 0u; i < ROWS; ++i)
                [[unroll]] for (uint j = 0u; j < VECTORS; ++j) {
                    const uint64_t u = uint64_t(rows[i]) * hidden + unit_of(from[j], hidden);
                    const bool in_range = is_in_range(turn + j * LANES, from[j], hidden);
                    const float before_product = load_float(r.dinitial, u, kF32);
                    if (in_range && s < count[i] && begin + i < r.batch)
                        store_float(r.dinitial, u, before_product + sum[i * VECTORS + j], kF32);
                }
        })
    } while (--left > 0u);
}
