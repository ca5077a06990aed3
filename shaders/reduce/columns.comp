#version 450
#extension GL_GOOGLE_include_directive : require
//! variant float T=float
//! variant int T=int INTEGER
// Reduces any axes: a lane has one element of the result and walks the reduced dimensions in row-major order. Also sums
// the partial results of other kernels.
#include "common.glsl"
#include "math.glsl"

layout(constant_id = 0) const uint WHAT = 0; // 0 sum, 1 maximum, 2 log-sum-exp, 3 place of the maximum
layout(constant_id = 1) const uint KEPT = 6;   // dimensions of the result
layout(constant_id = 2) const uint WALKED = 6; // dimensions that are reduced
layout(local_size_x = 32) in;

RECORD(Record) {
    HEKLA_RECORD
    uint64_t x, y;
    uint count;       // elements of the result, of a chunk
    uint many;        // elements reduced into one
    uint chunk;       // of `many`, one after the other in groups of their own; result [chunks, count]
    uint groups_a_chunk;
    uint kept[6];     // dimensions of the result, outermost first
    uint kept_factor[6]; // for hekla_divide
    uint kept_shift[6];
    int kept_stride[6];
    uint walked[6];
    uint walked_factor[6];
    uint walked_shift[6];
    int walked_stride[6];
    float factor;
};
PUSH_RECORD(Record);

#ifdef INTEGER
#define LOAD(i) load_int(r.x, i)
#define LEAST (-2147483647 - 1)
#else
#define LOAD(i) load_float(r.x, i, kF32)
#define LEAST (-kInfinity)
#endif

// Offsets are summed modulo 2^64: a negative stride is one too.
uint64_t wide(int stride) { return uint64_t(int64_t(stride)); }

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const uint part = group / r.groups_a_chunk;
    const uint element = (group % r.groups_a_chunk) * 32 + gl_LocalInvocationID.x;
    uint rest = min(element, r.count - 1);
    uint64_t base = 0;
    [[unroll]] for (int d = int(KEPT) - 1; d > 0; --d) {
        const uint whole = hekla_divide(rest, r.kept_factor[d], r.kept_shift[d]);
        base += uint64_t(rest - whole * r.kept[d]) * wide(r.kept_stride[d]);
        rest = whole;
    }
    if (KEPT > 0) base += uint64_t(rest) * wide(r.kept_stride[0]);
    const uint begin = part * r.chunk;
    const uint end = min(begin + r.chunk, r.many);
    T y = WHAT == 0 || WHAT == 2 ? T(0) : T(LEAST);
    T most = T(LEAST);
    uint place = 0;
    bool bad = false;
    uint n = begin;
    do {
        uint64_t at = base;
        uint left = n;
        [[unroll]] for (int d = int(WALKED) - 1; d > 0; --d) {
            const uint whole = hekla_divide(left, r.walked_factor[d], r.walked_shift[d]);
            at += uint64_t(left - whole * r.walked[d]) * wide(r.walked_stride[d]);
            left = whole;
        }
        if (WALKED > 0) at += uint64_t(left) * wide(r.walked_stride[0]);
        const T v = LOAD(at);
        if (WHAT == 0) y += v;
        if (WHAT == 1 || WHAT == 3) {
#ifndef INTEGER
            bad = bad || is_nan(v);
#endif
            if (v > most) {
                most = v;
                place = n;
            }
        }
#ifndef INTEGER
        if (WHAT == 2) {
            // A running maximum and the sum of exp under it.
            const float top = max(most, v);
            const float from = top == -kInfinity || top == kInfinity ? 0.0 : top;
            y = y * exp_(most - from) + exp_(v - from);
            most = top;
        }
#endif
    } while (++n < end);
    if (element < r.count) {
        const uint64_t to = uint64_t(part) * r.count + element;
        if (WHAT == 3) {
            store_int(r.y, to, int(place));
        } else {
#ifdef INTEGER
            store_int(r.y, to, WHAT == 1 ? most : y);
#else
            float value = y * r.factor;
            if (WHAT == 1) value = bad ? kNaN : most;
            if (WHAT == 2) value = most == kInfinity || most == -kInfinity ? most : most + log_(y);
            store_float(r.y, to, value, kF32);
#endif
        }
    }
}
