#version 450
#extension GL_GOOGLE_include_directive : require
// Combines the parts that cached_part.comp has computed, in order; a query per subgroup.
#include "common.glsl"
#include "lanes.glsl"
#include "math.glsl"
#include "attention/record.h"
#include "attention/exponential.glsl"

PUSH_RECORD(CachedRecord);

layout(constant_id = 1) const uint DV = 32;
layout(constant_id = 2) const uint SINKS = 0;

void main() {
    CachedRecord r = record;
    HEKLA_GROUP(group, r)
    const uint h = group % r.heads;
    const uint b = group / r.heads;
    const int position = load_int(r.start, uint64_t(b));
    const bool takes_part = load_int(r.count, uint64_t(b)) > 0;
    const uint end = uint(clamp(position + 1, 1, int(r.capacity)));
    const uint begin = r.window > 0 ? uint(clamp(position - r.window + 1, 0, int(end) - 1)) : 0;
    const uint first = begin / kKeysPerPart;
    const uint last = (end - 1) / kKeysPerPart;
    const uint64_t numbers = r.numbers + uint64_t(group * r.parts) * 8ul;
    const uint64_t sums = r.sums + uint64_t(group * r.parts * DV) * 4ul;
    float largest = -kInfinity;
    for (uint part = first; part <= last; ++part) largest = max(largest, load_float(numbers, uint64_t(part) * 2, kF32));
    float sum = 0.0;
    for (uint part = first; part <= last; ++part)
        sum += load_float(numbers, uint64_t(part) * 2 + 1, kF32) *
               exp_of_score(load_float(numbers, uint64_t(part) * 2, kF32) - largest);
    if (SINKS != 0) sum += exp_of_score(load_float(r.sinks, uint64_t(h), kF32) - largest);
    const uint64_t to = r.y + (uint64_t(b) * r.y_b + uint64_t(h) * r.y_h) * 4ul;
    for (uint d = gl_SubgroupInvocationID; d < DV; d += S) {
        float y = 0.0;
        for (uint part = first; part <= last; ++part)
            y += load_float(sums, uint64_t(part * DV + d), kF32) *
                 exp_of_score(load_float(numbers, uint64_t(part) * 2, kF32) - largest);
        store_float(to, uint64_t(d), takes_part ? y / sum : 0.0, kF32);
    }
}
