//! variant plain WORD=uint
//! variant narrow WORD=uint HEKLA_WIDTH=16
//! variant half WORD=uint16_t HALF
// Copies elements between any two strided views of one shape.
#version 460
#ifdef HALF
#extension GL_EXT_shader_16bit_storage : require
#endif
#include "pointwise/elements.glsl"
#include "pointwise/record.h"

// 0: both sides are dense; otherwise the number of dimensions of the loop.
layout(constant_id = 0) const uint RANK = 0;

#ifdef HALF
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer Elements { WORD at[]; };
#else
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Elements { WORD at[]; };
#endif
PUSH_RECORD(CopyRecord);

void main() {
    HEKLA_GROUP(group, record)
    // Loaded once, because a driver cannot know that stores do not change the record.
    const uint count = record.count;
    Elements source = Elements(record.from);
    Elements target = Elements(record.to);
    uint dims[6], factors[6], shifts[6];
    const uint first = record.first;
    uint from_strides[6], to_strides[6];
    [[unroll]] for (uint d = 0u; d < 6u; ++d) {
        if (d < RANK) {
            dims[d] = record.dims[d];
            factors[d] = record.factors[d];
            shifts[d] = record.shifts[d];
            from_strides[d] = uint(record.from_strides[d]);
            to_strides[d] = uint(record.to_strides[d]);
        }
    }
    HEKLA_EACH_ELEMENT(i, group, count, {
        if (RANK == 0u) {
            const uint value = uint(source.at[i]);
            if (in_range) target.at[i] = WORD(value);
        } else {
            uint rest = i;
            uint from = first; // never below 0: NVIDIA's driver reads elsewhere then
            uint to = 0;
            [[unroll]] for (int d = 5; d >= 0; --d) {
                if (d < int(RANK)) {
                    const uint whole = d == 0 ? 0u : hekla_divide(rest, factors[d], shifts[d]);
                    const uint c = rest - whole * dims[d];
                    rest = whole;
                    from += c * from_strides[d];
                    to += c * to_strides[d];
                }
            }
            const uint value = uint(source.at[from]);
            if (in_range) target.at[to] = WORD(value);
        }
    })
}
