// Shared by the kernels of windows: an element's index, and the windows that an element of x is in.
#include "pointwise/elements.glsl"
#include "convolution/record.h"

PUSH_RECORD(WindowsRecord);

// Splits the number of an invocation into its indices; returns that of the batch.
uint split(uint i, out uint index[6]) {
    uint rest = i;
    [[unroll]] for (int d = 5; d >= 0; --d) {
        const uint whole = hekla_divide(rest, record.factors[d], record.shifts[d]);
        index[d] = rest - whole * record.dims[d];
        rest = whole;
    }
    return rest;
}

// Returns the place along an axis of element u of window i, which may be outside of x.
int place_of(uint axis, uint i, uint u) {
    return int(i * record.stride[axis] + u * record.dilation[axis]) - int(record.padding[axis]);
}
bool is_inside(uint axis, int place) { return place >= 0 && place < int(record.size[axis]); }
uint clamped(uint axis, int place) { return uint(clamp(place, 0, int(record.size[axis]) - 1)); }

// Returns the window whose element u is at a place of x; `found`: there is one, otherwise it is clamped.
uint window_of(uint axis, uint place, uint u, out bool found) {
    const int from = int(place + record.padding[axis]) - int(u * record.dilation[axis]);
    const uint start = uint(max(from, 0));
    const uint window = hekla_divide(start, record.stride_factors[axis], record.stride_shifts[axis]);
    found = from >= 0 && window * record.stride[axis] == start && window < record.windows[axis];
    return min(window, record.windows[axis] - 1u);
}
