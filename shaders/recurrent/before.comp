#version 450
#extension GL_GOOGLE_include_directive : require
// Computes the state before every token [B, T, H] from the states after them: the initial one at the first step, 0 at
// padding.
#include "recurrent/gates.glsl"

PUSH_RECORD(BeforeRecord);

void main() {
    BeforeRecord r = record;
    HEKLA_GROUP(token, r)
    const uint hidden = r.hidden;
    const uint row = token / r.time;
    const uint place = token - row * r.time;
    const uint count = length_of(r.lengths, row, r.time);
    const bool is_token = place < count;
    const bool begins = is_token && place == (REVERSE ? count - 1u : 0u);
    const uint source = !is_token || begins ? token : REVERSE ? token + 1u : token - 1u;
    HEKLA_EACH_TURN(turn, 1u, hidden, {
        const uint u = turn_from(turn, hidden);
        float state = load_float(r.after, uint64_t(source) * hidden + u, kF32);
        if (begins || !is_token) state = 0.0;
        if (INITIAL) {
            const float start = load_float(r.initial, uint64_t(row) * hidden + u, kF32);
            if (begins) state = start;
        }
        if (is_in_range(turn, u, hidden)) store_float(r.y, uint64_t(token) * hidden + u, state, kF32);
    })
}
