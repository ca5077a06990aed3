#version 450
#extension GL_GOOGLE_include_directive : require
//! variant float T=float
//! variant int T=int INTEGER
//! variant 16 T=float STORAGE16
// Reduces any axes: a lane computes one element of the result and walks the reduced dimensions in row-major order. Also
// sums the partial results of other kernels.
#include "common.glsl"
#include "math.glsl"
#include "reduce/record.h"

layout(constant_id = 0) const uint REDUCTION = kSum;
layout(constant_id = 1) const uint KEPT = 6;   // dimensions of the result
layout(constant_id = 2) const uint WALKED = 6; // dimensions that are reduced
layout(constant_id = 3) const uint TYPE = 0;   // of x, if it is not of integers
layout(local_size_x = 32) in;

PUSH_RECORD(ColumnsRecord);

#ifdef INTEGER
#define LOAD(i) load_int(r.x, i)
#define LEAST (-2147483647 - 1)
#else
#define LOAD(i) load_float(r.x, i, TYPE)
#define LEAST (-kInfinity)
#endif

// Offsets are summed modulo 2^64, which also handles negative strides.
uint64_t wide(int stride) { return uint64_t(int64_t(stride)); }

void main() {
    ColumnsRecord r = record;
    HEKLA_GROUP(group, r)
    const uint part = group / r.groups_per_chunk;
    const uint element = (group % r.groups_per_chunk) * 32 + gl_LocalInvocationID.x;
    uint rest = min(element, r.count - 1);
    uint64_t base = 0;
    [[unroll]] for (int d = int(KEPT) - 1; d > 0; --d) {
        const uint whole = hekla_divide(rest, r.kept_factors[d], r.kept_shifts[d]);
        base += uint64_t(rest - whole * r.kept[d]) * wide(r.kept_strides[d]);
        rest = whole;
    }
    if (KEPT > 0) base += uint64_t(rest) * wide(r.kept_strides[0]);
    const uint begin = part * r.chunk;
    const uint end = min(begin + r.chunk, r.many);
    T y = REDUCTION == kSum || REDUCTION == kLogSumExp ? T(0) : T(LEAST);
    T maximum = T(LEAST);
    uint place = 0;
    bool bad = false;
    uint n = begin;
    do {
        uint64_t at = base;
        uint left = n;
        [[unroll]] for (int d = int(WALKED) - 1; d > 0; --d) {
            const uint whole = hekla_divide(left, r.walked_factors[d], r.walked_shifts[d]);
            at += uint64_t(left - whole * r.walked[d]) * wide(r.walked_strides[d]);
            left = whole;
        }
        if (WALKED > 0) at += uint64_t(left) * wide(r.walked_strides[0]);
        const T v = LOAD(at);
        if (REDUCTION == kSum) y += v;
        if (REDUCTION == kMaximum || REDUCTION == kArgmax) {
#ifndef INTEGER
            bad = bad || is_nan(v);
#endif
            if (v > maximum) {
                maximum = v;
                place = n;
            }
        }
#ifndef INTEGER
        if (REDUCTION == kLogSumExp) {
            // A running maximum and the sum of exp relative to it.
            const float new_max = max(maximum, v);
            const float from = new_max == -kInfinity || new_max == kInfinity ? 0.0 : new_max;
            y = y * exp_(maximum - from) + exp_(v - from);
            maximum = new_max;
        }
#endif
    } while (++n < end);
    if (element < r.count) {
        const uint64_t to = uint64_t(part) * r.count + element;
        if (REDUCTION == kArgmax) {
            store_int(r.y, to, int(place));
        } else {
#ifdef INTEGER
            store_int(r.y, to, REDUCTION == kMaximum ? maximum : y);
#else
            float value = y * r.factor;
            if (REDUCTION == kMaximum) value = bad ? kNaN : maximum;
            if (REDUCTION == kLogSumExp) value = maximum == kInfinity || maximum == -kInfinity ? maximum : maximum + log_(y);
            store_float(r.y, to, value, kF32);
#endif
        }
    }
}
