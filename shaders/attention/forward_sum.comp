#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant 16 STORAGE16
// Combines the parts that a forward kernel with kSplit has computed, in order. The record is that kernel's. An element
// of y per invocation.
layout(constant_id = 1) const uint DV = 32;
layout(constant_id = 3) const uint OPTIONS = 0;
layout(local_size_x = 64) in;

#include "attention/gpu.glsl"

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const bool in_range = group * 64 + gl_LocalInvocationID.x < r.rows * DV;
    const uint at = min(group * 64 + gl_LocalInvocationID.x, r.rows * DV - 1);
    const uint row = at / DV, d = at % DV;
    const uint i = row % r.queries, h = row / r.queries % r.heads, b = row / r.queries / r.heads;
    const uint first = (b * r.heads + h) * r.parts * r.queries + i; // of part 0; those of the next are `queries` after
    float largest = -kInfinity;
    uint part = 0;
    do {
        largest = max(largest, given_float(r.part_numbers, uint64_t(first + part * r.queries) * 2));
    } while (++part < r.parts);
    const float base = largest == -kInfinity ? 0.0 : largest;
    float y = 0.0, sum = 0.0;
    part = 0;
    do {
        const uint of_part = first + part * r.queries;
        const vec2 numbers = given_pair(r.part_numbers, uint64_t(of_part) * 2);
        const float factor = exp_of_score(numbers.x - base);
        sum += numbers.y * factor;
        y += given_float(r.part_sums, uint64_t(of_part * DV + d)) * factor;
    } while (++part < r.parts);
    float top = base, divisor = sum;
    if (has(kSinks)) divisor = add_sink(r, h, top, sum);
    const bool empty = sum == 0.0;
    if (!has(kZeroEmpty) && empty) {
        // A row without an allowed key becomes the mean of all values.
        const uint64_t values = head_at(r.v, b, r.v_b, h / (r.heads / r.key_heads), r.v_h, kTypeV);
        uint j = 0;
        do {
            y += load_float(row_at(values, j, r.v_t, kTypeV), uint64_t(d), kTypeV);
        } while (++j < r.keys);
        divisor = float(r.keys);
    }
    if (!in_range) return;
    store_float(row_at(head_at(r.y, b, r.y_b, h, r.y_h, kTypeY), i, r.y_t, kTypeY), uint64_t(d), empty && has(kZeroEmpty) ? 0.0 : y / divisor, kTypeY);
    if (d == 0) store_pair(r.lse, uint64_t(row) * 2, empty ? vec2(0.0, kEmptyRow) : vec2(top, log_(sum)));
}
