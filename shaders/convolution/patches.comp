//! variant plain
//! variant fours FOURS
// The windows of x as rows [B, H', W', groups, kh, kw, channels]: copies, and 0 outside of x. An invocation copies all elements
// of a window that are of one channel, so that it computes its place once.
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
    const uint elements = record.kernel[0] * record.kernel[1];
    HEKLA_EACH_ELEMENT(i, group, record.count, {
        uint index[6]; // H', W', group, channel
        const uint batch = split(i, index);
        const uint window = (batch * record.windows[0] + index[0]) * record.windows[1] + index[1];
        const uint channel = index[2] * channels + index[3];
        uint to = (window * record.groups + index[2]) * elements * channels + index[3];
        uint u = 0u;
        do {
            const int h = place_of(0u, index[0], u);
            const uint row = (batch * record.size[0] + clamped(0u, h)) * record.size[1];
            uint v = 0u;
            do {
                const int w = place_of(1u, index[1], v);
                const WORDS words = Elements(record.from).at[(row + clamped(1u, w)) * width + channel];
                if (in_range) Elements(record.to).at[to] = is_inside(0u, h) && is_inside(1u, w) ? words : WORDS(0u);
                to += channels;
            } while (++v < record.kernel[1]);
        } while (++u < record.kernel[0]);
    })
}
