// Pools of x [B, H, W, C]: the largest element of each window of each channel and its place, or the mean.
#version 460
#include "convolution/windows.glsl"
#include "math.glsl"

layout(constant_id = 0) const uint MEAN = 0;

void main() {
    HEKLA_GROUP(group, record)
    HEKLA_EACH_ELEMENT(i, group, record.count, {
        uint index[6]; // H', W', channel
        const uint batch = split(i, index);
        float y = MEAN != 0u ? 0.0 : -kInfinity;
        int found = -1;
        uint inside = 0u;
        uint u = 0u;
        do {
            const int h = place_of(0u, index[0], u);
            const uint row = (batch * record.size[0] + clamped(0u, h)) * record.size[1];
            uint v = 0u;
            do {
                const int w = place_of(1u, index[1], v);
                const float x = FloatArray(record.from).at[(row + clamped(1u, w)) * record.channels + index[2]];
                if (is_inside(0u, h) && is_inside(1u, w)) {
                    if (MEAN != 0u) {
                        y += x;
                        ++inside;
                    } else if (found < 0 || x > y || is_nan(x)) {
                        y = x;
                        found = int(u * record.kernel[1] + v);
                    }
                }
            } while (++v < record.kernel[1]);
        } while (++u < record.kernel[0]);
        if (MEAN != 0u) y /= float(record.elements != 0u ? record.elements : inside);
        if (in_range) {
            FloatArray(record.to).at[i] = y;
            if (MEAN == 0u) IntArray(record.places).at[i] = found;
        }
    })
}
