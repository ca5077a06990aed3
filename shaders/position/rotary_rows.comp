#version 450
#extension GL_GOOGLE_include_directive : require
// Rotary position embedding as rotary.comp computes it, for drivers with uniform_loads: one subgroup, the whole
// workgroup, per row that is dense. Pairs are elements i and half + i.
#include "common.glsl"
#include "lanes.glsl"
#include "position/record.h"
#include "position/rotary_row.glsl"

layout(constant_id = 1) const uint INVERSE = 0;
layout(constant_id = 2) const uint POSITIONS = 0; // given, [B, T]; otherwise the row's index
layout(constant_id = 3) const uint REST = 0;      // rows have more than the pairs

PUSH_RECORD(RotaryRecord);

void main() {
    RotaryRecord r = record;
    HEKLA_GROUP(group, r)
    const uint lane = gl_SubgroupInvocationID;
    HEKLA_EACH_ROW(row, group, r.count / r.width, {
        const uvec3 place = rotary_row(row, r.heads, r.tokens, INVERSE);
        const uint b = place.x;
        const uint t = place.z;
        const int from = int(b) * r.x_strides[0] + int(place.y) * r.x_strides[1] + int(t) * r.x_strides[2];
        int position = int(t);
        if (POSITIONS != 0u) position = load_int(r.positions, uint64_t(b * r.tokens + t));
        const uint64_t angles = uint64_t(uint(clamp(position, 0, int(r.rows) - 1)) * r.half_turned) * 4ul;
        const uint64_t x = r.x + uint64_t(uint(from)) * 4ul;
        const uint64_t y = r.y + uint64_t(row) * r.width * 4ul;
        uint i = 0;
        do {
            const uint64_t at = uint64_t(i) * 4ul;
            const uint64_t partner = uint64_t(i + r.half_turned) * 4ul;
            const float c = load_consecutive(r.cosine + angles + at);
            const float s0 = load_consecutive(r.sine + angles + at);
            const float s = INVERSE != 0u ? s0 : -s0;
            const float first = load_consecutive(x + at);
            const float second_ = load_consecutive(x + partner);
            precise float y_first = first * c + second_ * s;
            precise float y_second = second_ * c + first * -s;
            if (i + lane < r.half_turned) {
                store_float(y + at, uint64_t(lane), y_first, kF32);
                store_float(y + partner, uint64_t(lane), y_second, kF32);
            }
            i += S;
        } while (i < r.half_turned);
        if (REST != 0u) { // stays as it is
            i = 2u * r.half_turned;
            do {
                const uint64_t at = uint64_t(min(i, r.width - 1u)) * 4ul;
                const float rest = load_consecutive(x + at);
                if (i + lane < r.width) store_float(y + at, uint64_t(lane), rest, kF32);
                i += S;
            } while (i < r.width);
        }
    })
}
