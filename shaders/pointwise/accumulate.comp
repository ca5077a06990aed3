// Adds to the gradient of a parameter, or overwrites it, depending on RuntimeRecord::accumulate.
#version 460
#include "pointwise/elements.glsl"
#include "pointwise/record.h"

PUSH_RECORD(AccumulateRecord);

void main() {
    HEKLA_GROUP(group, record)
    const bool add = RuntimeRecord(record.runtime).accumulate != 0u;
    HEKLA_EACH_ELEMENT(i, group, record.count, {
        const float x = FloatArray(record.x).at[i];
        const float before = FloatArray(record.gradient).at[i];
        precise float sum = before + x;
        if (in_range) FloatArray(record.gradient).at[i] = add ? sum : x;
    })
}
