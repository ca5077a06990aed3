//! variant plain
//! variant fours FOURS
// The windows of x as rows [B, H', W', groups, kh, kw, channels]: copies, and 0 outside of x.
#version 460
#include "convolution/windows.glsl"

#ifdef FOURS
#define WORDS uvec4
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Elements { uvec4 at[]; };
#else
#define WORDS uint
#define Elements WordArray
#endif

void main() {
    HEKLA_GROUP(group, record)
    const uint channels = record.channels;
    const uint width = record.groups * channels;
    HEKLA_EACH_ELEMENT(i, group, record.count, {
        uint index[6]; // H', W', group, kh, kw, channel
        const uint batch = split(i, index);
        const int h = place_of(0u, index[0], index[3]);
        const int w = place_of(1u, index[1], index[4]);
        const uint place = (batch * record.size[0] + clamped(0u, h)) * record.size[1] + clamped(1u, w);
        const WORDS words = Elements(record.from).at[place * width + index[2] * channels + index[5]];
        if (in_range) Elements(record.to).at[i] = is_inside(0u, h) && is_inside(1u, w) ? words : WORDS(0u);
    })
}
