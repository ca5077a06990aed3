#version 450
#extension GL_GOOGLE_include_directive : require
// GRU (Cho et al. 2014) and LSTM (Hochreiter and Schmidhuber 1997) over padded sequences, in PyTorch's form. What comes
// from the inputs is there already, as one matmul; this walks through time, each step reading the state that the step
// before has written to y.
#include "recurrent/gates.glsl"

RECORD(Record) {
    HEKLA_RECORD
    uint64_t inputs; // [B, T, gates H]
    uint64_t weight; // [H, gates H]: transposed, so that the lanes' units follow each other
    uint64_t bias;   // [gates H]
    uint64_t lengths, initial, initial_cell;
    uint64_t y, last, last_cell, cells;
    uint time, hidden;
};
PUSH_RECORD(Record);

void main() {
    Record r = record;
    HEKLA_GROUP(row, r)
    const uint hidden = r.hidden, width = GATES * hidden;
    const uint count = length_of(r.lengths, row, r.time);
    const uint first = row * r.time; // token of the row's beginning
    const uint64_t state0 = uint64_t(row) * hidden;
    uint before = first + token_of(0u, count); // where the state before the step is; at the first step nothing yet
    uint s = 0u;
    do {
        const uint token = first + token_of(s, count);
        const bool real = s < count;
        HEKLA_EACH_UNIT(u, live, hidden, {
            const uint64_t given = uint64_t(token) * width + u;
            vec4 h = vec4(0.0);
            if (real) {
                uint k = 0u;
                uint64_t w = 0ul;
                do {
                    float state = load_shared(r.y, uint64_t(before) * hidden + k);
                    if (s == 0u) state = 0.0;
                    if (INITIAL) {
                        const float start = load_float(r.initial, state0 + k, kF32);
                        if (s == 0u) state = start;
                    }
                    Floats weight = Floats(r.weight + w);
                    h.x += state * weight.v[u];
                    h.y += state * weight.v[u + hidden];
                    h.z += state * weight.v[u + 2u * hidden];
                    if (LSTM) h.w += state * weight.v[u + 3u * hidden];
                    w += uint64_t(width) * 4ul;
                } while (++k < hidden);
            }
            h.x += load_float(r.bias, u, kF32);
            h.y += load_float(r.bias, u + hidden, kF32);
            h.z += load_float(r.bias, u + 2u * hidden, kF32);
            const float x0 = load_float(r.inputs, given, kF32);
            const float x1 = load_float(r.inputs, given + hidden, kF32);
            const float x2 = load_float(r.inputs, given + 2u * hidden, kF32);
            float next;
            if (LSTM) {
                h.w += load_float(r.bias, u + 3u * hidden, kF32);
                const float x3 = load_float(r.inputs, given + 3u * hidden, kF32);
                float cell = load_float(r.cells, uint64_t(before) * hidden + u, kF32);
                if (s == 0u) cell = 0.0;
                if (INITIAL_CELL) {
                    const float start = load_float(r.initial_cell, state0 + u, kF32);
                    if (s == 0u) cell = start;
                }
                cell = sigmoid_(x1 + h.y) * cell + sigmoid_(x0 + h.x) * tanh_(x2 + h.z);
                next = sigmoid_(x3 + h.w) * tanh_(cell);
                if (live) store_float(r.cells, uint64_t(token) * hidden + u, real ? cell : 0.0, kF32);
            } else {
                float state = load_shared(r.y, uint64_t(before) * hidden + u);
                if (s == 0u) state = 0.0;
                if (INITIAL) {
                    const float start = load_float(r.initial, state0 + u, kF32);
                    if (s == 0u) state = start;
                }
                const float z = sigmoid_(x1 + h.y);
                const float n = tanh_(x2 + sigmoid_(x0 + h.x) * h.z);
                next = (1.0 - z) * n + z * state;
            }
            if (live) store_shared(r.y, uint64_t(token) * hidden + u, real ? next : 0.0);
        })
        if (real) before = token;
        memoryBarrierBuffer();
        barrier();
    } while (++s < r.time);

    HEKLA_EACH_UNIT(u, live, hidden, {
        float state = load_shared(r.y, uint64_t(before) * hidden + u);
        float cell = 0.0;
        if (LSTM) cell = load_float(r.cells, uint64_t(before) * hidden + u, kF32);
        if (count == 0u) {
            state = 0.0;
            cell = 0.0;
            if (INITIAL) state = load_float(r.initial, state0 + u, kF32);
            if (INITIAL_CELL) cell = load_float(r.initial_cell, state0 + u, kF32);
        }
        if (live) {
            store_float(r.last, state0 + u, state, kF32);
            if (LSTM) store_float(r.last_cell, state0 + u, cell, kF32);
        }
    })
}
