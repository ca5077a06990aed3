//! variant plain WORD=uint
//! variant half WORD=uint16_t HALF
// Copies elements between any two strided views of one shape.
#version 460
#ifdef HALF
#extension GL_EXT_shader_16bit_storage : require
#endif
#include "pointwise/elements.glsl"

// 0: both sides are dense; else the loop's dimensions.
layout(constant_id = 0) const uint RANK = 0;

layout(buffer_reference, scalar, buffer_reference_align = 2) buffer Elements { WORD at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Record {
    HEKLA_RECORD
    Elements from;
    Elements to;
    uint count;
    uint dims[6];
    uint factors[6]; // of dims, for hekla_divide
    uint shifts[6];
    int from_strides[6];
    int to_strides[6];
};
layout(push_constant) uniform Push { Record record; };

void main() {
    HEKLA_GROUP(group, record)
    HEKLA_EACH_ELEMENT(i, group, record.count, {
        if (RANK == 0u) {
            if (live) record.to.at[i] = record.from.at[i];
        } else {
            uint rest = i;
            int from = 0;
            int to = 0;
            for (int d = int(RANK) - 1; d >= 0; --d) {
                const uint dim = record.dims[d];
                const uint whole = hekla_divide(rest, record.factors[d], record.shifts[d]);
                const int c = int(rest - whole * dim);
                rest = whole;
                from += c * record.from_strides[d];
                to += c * record.to_strides[d];
            }
            const uint value = uint(record.from.at[from]);
            if (live) record.to.at[to] = WORD(value);
        }
    })
}
