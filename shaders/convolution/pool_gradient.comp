// Gradients of pools: every element of x [B, H, W, C] sums what the windows that it is in pass on, in the order of its
// place in them.
#version 460
#include "convolution/windows.glsl"

layout(constant_id = 0) const uint MEAN = 0;

// Returns how many elements of window i along an axis are inside of x.
uint inside_of(uint axis, uint i) {
    uint inside = 0u;
    uint u = 0u;
    do {
        if (is_inside(axis, place_of(axis, i, u))) ++inside;
    } while (++u < record.kernel[axis]);
    return inside;
}

void main() {
    HEKLA_GROUP(group, record)
    HEKLA_EACH_ELEMENT(i, group, record.count, {
        uint index[6]; // H, W, channel
        const uint batch = split(i, index);
        float sum = 0.0;
        uint u = 0u;
        do {
            bool row_found;
            const uint row = window_of(0u, index[0], u, row_found);
            uint v = 0u;
            do {
                bool found;
                const uint column = window_of(1u, index[1], v, found);
                const uint window = (batch * record.windows[0] + row) * record.windows[1] + column;
                const uint at = window * record.channels + index[2];
                float dy = FloatArray(record.from).at[at];
                if (MEAN != 0u)
                    dy /= float(record.elements != 0u ? record.elements : inside_of(0u, row) * inside_of(1u, column));
                else
                    found = found && IntArray(record.places).at[at] == int(u * record.kernel[1] + v);
                sum += found && row_found ? dy : 0.0;
            } while (++v < record.kernel[1]);
        } while (++u < record.kernel[0]);
        if (in_range) FloatArray(record.to).at[i] = sum;
    })
}
