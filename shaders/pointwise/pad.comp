// Writes [outer, places, inner] with `value`, except for x [outer, parts, inner] (strided) at start, start + stride,
// ... of the axis: pad (stride 1) and the gradient of slice.
#version 460
#include "pointwise/elements.glsl"
#include "pointwise/record.h"

PUSH_RECORD(PadRecord);

void main() {
    HEKLA_GROUP(group, record)
    HEKLA_EACH_ELEMENT(i, group, record.count, {
        const uint row = hekla_divide(i, record.inner_factor, record.inner_shift);
        const uint outer = hekla_divide(row, record.places_factor, record.places_shift);
        const uint place = row - outer * record.places;
        const uint past = max(place, record.start) - record.start;
        const uint part = hekla_divide(past, record.stride_factor, record.stride_shift);
        const bool inside = place >= record.start && part < record.parts && part * record.stride == past;
        const uint from = (outer * record.parts + min(part, record.parts - 1u)) * record.inner + (i - row * record.inner);
        const uint word = WordArray(record.x).at[from];
        if (in_range) WordArray(record.y).at[i] = inside ? word : record.value;
    })
}
