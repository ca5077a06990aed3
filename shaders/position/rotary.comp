// Rotary position embedding (Su et al. 2021) of x [B, H, T, D]: the first 2 * half elements of each row are
// rotated by the angle of the row's position. y is in the order of rotary_row().
#version 460
#include "pointwise/elements.glsl"
#include "position/record.h"
#include "position/rotary_row.glsl"

layout(constant_id = 0) const uint INTERLEAVED = 0;
layout(constant_id = 1) const uint INVERSE = 0;
layout(constant_id = 2) const uint POSITIONS = 0; // given, [B, T]; otherwise the row's index

PUSH_RECORD(RotaryRecord);

void main() {
    HEKLA_GROUP(group, record)
    HEKLA_EACH_ELEMENT(i, group, record.count, {
        const uint line = i / record.width;
        const uint d = i - line * record.width;
        const uvec3 place = rotary_row(line, record.heads, record.tokens, INVERSE);
        const uint b = place.x;
        const uint t = place.z;
        const int from = int(b) * record.x_strides[0] + int(place.y) * record.x_strides[1] + int(t) * record.x_strides[2];
        int position = int(t);
        if (POSITIONS != 0u) position = IntArray(record.positions).at[b * record.tokens + t];
        const uint table_row = uint(clamp(position, 0, int(record.rows) - 1));
        const uint turned = 2u * record.half_turned;
        const uint e = min(d, turned - 1u);
        uint pair = e >> 1;
        uint partner = e ^ 1u;
        bool second = (e & 1u) != 0u;
        if (INTERLEAVED == 0u) {
            second = e >= record.half_turned;
            pair = second ? e - record.half_turned : e;
            partner = second ? pair : e + record.half_turned;
        }
        const float c = FloatArray(record.cosine).at[table_row * record.half_turned + pair];
        const float s0 = FloatArray(record.sine).at[table_row * record.half_turned + pair];
        const float s = (INVERSE != 0u) != second ? s0 : -s0; // the first element is x1 c - x2 s, the second x2 c + x1
                                                              // s
        const float own = FloatArray(record.x).at[from + int(d) * record.x_strides[3]];
        const float other = FloatArray(record.x).at[from + int(partner) * record.x_strides[3]];
        precise float y = own * c + other * s;
        if (in_range) FloatArray(record.y).at[i] = d < turned ? y : own;
    })
}
