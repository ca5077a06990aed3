// Running sums along the middle of x [outer, places, inner]: one invocation per line, in order.
#version 460
#include "pointwise/elements.glsl"
#include "scan/record.h"

layout(constant_id = 0) const uint INTEGER = 0;
layout(constant_id = 1) const uint REVERSE = 0;

PUSH_RECORD(CumsumRecord);

void main() {
    HEKLA_GROUP(group, record)
    HEKLA_EACH_ELEMENT(i, group, record.count, {
        const uint outer = i / record.inner;
        const uint first = outer * record.places * record.inner + (i - outer * record.inner);
        precise float sum = 0.0;
        int whole = 0;
        uint k = 0u;
        do {
            const uint place = REVERSE != 0u ? record.places - 1u - k : k;
            const uint at = first + place * record.inner;
            const uint word = WordArray(record.x).at[at];
            sum += uintBitsToFloat(word);
            whole += int(word);
            if (in_range) WordArray(record.y).at[at] = INTEGER != 0u ? uint(whole) : floatBitsToUint(sum);
        } while (++k < record.places);
    })
}
