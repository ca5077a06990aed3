// Adds to the gradient of a parameter, or overwrites it, as the replay says.
#version 460
#include "pointwise/elements.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Record {
    HEKLA_RECORD
    uint64_t x;
    uint64_t gradient;
    uint64_t runtime;
    uint count;
};
layout(push_constant) uniform Push { Record record; };

void main() {
    HEKLA_GROUP(group, record)
    const bool add = RuntimeRecord(record.runtime).accumulate != 0u;
    HEKLA_EACH_ELEMENT(i, group, record.count, {
        const float x = FloatArray(record.x).at[i];
        const float before = FloatArray(record.gradient).at[i];
        precise float sum = before + x;
        if (live) FloatArray(record.gradient).at[i] = add ? sum : x;
    })
}
