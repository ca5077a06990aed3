// Dropout by key as a separate kernel, for hosts that cannot compile GLSL at run time.
#version 460
#include "pointwise/elements.glsl"
#include "pointwise/dropout.glsl"
#include "pointwise/record.h"

layout(constant_id = 0) const uint RANK = 0; // 0: x is dense

PUSH_RECORD(DropoutRecord);

void main() {
    HEKLA_GROUP(group, record)
    RuntimeRecord runtime = RuntimeRecord(record.runtime);
    HEKLA_EACH_ELEMENT(i, group, record.count, {
        int at = int(i);
        if (RANK != 0u) {
            at = 0;
            uint rest = i;
            for (int d = int(RANK) - 1; d >= 0; --d) {
                const uint dim = record.dims[d];
                const uint whole = hekla_divide(rest, record.factors[d], record.shifts[d]);
                at += int(rest - whole * dim) * record.strides[d];
                rest = whole;
            }
        }
        const float value = hekla_dropout(FloatArray(record.x).at[at], runtime, record.stream, record.threshold, record.factor,
                                          i, record.example);
        if (in_range) FloatArray(record.y).at[i] = value;
    })
}
