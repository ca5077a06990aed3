// Running sums and the like along the middle of x [outer, places, inner]: one invocation per line, in order.
#version 460
#include "pointwise/elements.glsl"
#include "math.glsl"
#include "scan/record.h"

layout(constant_id = 0) const uint INTEGER = 0;
layout(constant_id = 1) const uint REVERSE = 0;
layout(constant_id = 2) const uint SCAN = kSum;

PUSH_RECORD(ScanRecord);

void main() {
    HEKLA_GROUP(group, record)
    HEKLA_EACH_ELEMENT(i, group, record.count, {
        const uint outer = i / record.inner;
        const uint first = outer * record.places * record.inner + (i - outer * record.inner);
        precise float total = SCAN == kProduct ? 1.0 : 0.0; // with kLogSumExp relative to the maximum
        if (SCAN == kLinearFrom) total = FloatArray(record.initial).at[i];
        float top = -kInfinity;
        int whole = SCAN == kProduct ? 1 : 0;
        uint index = 0u;
        uint k = 0u;
        do {
            const uint place = REVERSE != 0u ? record.places - 1u - k : k;
            const uint at = first + place * record.inner;
            const uint word = WordArray(record.x).at[at];
            const float x = uintBitsToFloat(word);
            if (SCAN == kSum) {
                total += x;
                whole += int(word);
            } else if (SCAN == kProduct) {
                total *= x;
                whole *= int(word);
            } else if (SCAN == kMaximum) {
                // The latest at ties; NaN is larger than every number.
                if (k == 0u || (INTEGER != 0u ? int(word) >= whole : x >= total || is_nan(x))) {
                    total = x;
                    whole = int(word);
                    index = place;
                }
            } else if (SCAN == kLogSumExp) {
                precise float smaller = x == top ? 1.0 : exp_(-abs(x - top)); // inf - inf is not a number
                total = x > top ? total * smaller + 1.0 : total + smaller;
                top = x > top ? x : top;
            } else {
                total = SCAN == kLinear && k == 0u ? x : x + FloatArray(record.a).at[at] * total;
            }
            precise float y = SCAN == kLogSumExp ? top + log_(total) : total;
            if (in_range) {
                WordArray(record.y).at[at] = INTEGER != 0u ? uint(whole) : floatBitsToUint(y);
                if (SCAN == kMaximum) IntArray(record.indices).at[at] = int(index);
            }
        } while (++k < record.places);
    })
}
