//! variant plain
//! variant fours FOURS
// Gradient of patches: every element of x sums the elements of dy [B, H', W', groups, kh, kw, channels] that are copies of
// it, in the order of kh and kw.
#version 460
#include "convolution/windows.glsl"

#ifdef FOURS
#define NUMBERS vec4
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Elements { vec4 at[]; };
#else
#define NUMBERS float
#define Elements FloatArray
#endif

void main() {
    HEKLA_GROUP(group, record)
    const uint channels = record.channels;
    const uint elements = record.kernel[0] * record.kernel[1];
    HEKLA_EACH_ELEMENT(i, group, record.count, {
        uint index[6]; // H, W, group, channel
        const uint batch = split(i, index);
        NUMBERS sum = NUMBERS(0.0);
        uint u = 0u;
        do {
            bool row_found;
            const uint row = (batch * record.windows[0] + window_of(0u, index[0], u, row_found)) * record.windows[1];
            uint v = 0u;
            do {
                bool found;
                const uint window = row + window_of(1u, index[1], v, found);
                const uint element = (window * record.groups + index[2]) * elements + u * record.kernel[1] + v;
                const NUMBERS dy = Elements(record.from).at[element * channels + index[3]];
                sum += found && row_found ? dy : NUMBERS(0.0);
            } while (++v < record.kernel[1]);
        } while (++u < record.kernel[0]);
        if (in_range) Elements(record.to).at[i] = sum;
    })
}
