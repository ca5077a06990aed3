#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant 16 STORAGE16
// dx, dgain and dbias of layer norm and RMS norm in one pass, on a GPU: what norm/gradient and norm/gain_gradient
// compute in two. A workgroup has a chunk of the rows, and each of its N subgroups every Nth row of the chunk, which it
// reads once, to registers: PARTS parts of 4 S elements, four per lane. Its sums for dgain and dbias are in registers
// too; after the last row those of all subgroups are added in order, and reduce/columns adds the chunks'.
#include "common.glsl"
#define HEKLA_INVOCATIONS_ID 7
#include "lanes.glsl"
#include "fours.glsl"
#include "norm/record.h"

layout(constant_id = 1) const uint PARTS = 1;
layout(constant_id = 2) const uint VECTORS = 0; // addresses and strides are multiples of four elements
layout(constant_id = 3) const uint RMS = 0;
layout(constant_id = 4) const uint GAIN = 0;
layout(constant_id = 5) const uint RESIDUAL = 0;
layout(constant_id = 6) const uint TYPE = 0; // of dy
layout(constant_id = 7) const uint INVOCATIONS = 128;
layout(constant_id = 8) const uint COPY = 0; // the copy's type, or 0

PUSH_RECORD(GradientRecord);

shared vec4 sums[INVOCATIONS];

// A lane's elements of part p: four neighbors, or with a distance of S.
uint element(uint p, uint c) {
    return VECTORS != 0 ? (p * S + gl_SubgroupInvocationID) * 4 + c : p * S * 4 + c * S + gl_SubgroupInvocationID;
}
vec4 load_vector(uint64_t row, uint p, uint width, uint type, float other) {
    vec4 x = vec4(other);
    if (VECTORS != 0) {
        const uint i = min(element(p, 0), width - 4);
        x = given_four(row, i, type);
        return element(p, 0) < width ? x : vec4(other);
    }
    [[unroll]] for (uint c = 0; c < 4; ++c) {
        const uint i = element(p, c);
        const float y = load_float(row, uint64_t(min(i, width - 1)), type);
        x[c] = i < width ? y : other;
    }
    return x;
}
void store_vector(uint64_t row, uint p, uint width, vec4 x, uint type) {
    if (VECTORS != 0) {
        if (element(p, 0) < width) store_four(row, element(p, 0), x, type);
        return;
    }
    [[unroll]] for (uint c = 0; c < 4; ++c)
        if (element(p, c) < width) store_float(row, uint64_t(element(p, c)), x[c], type);
}

void main() {
    GradientRecord r = record;
    HEKLA_GROUP(group, r)
    const uint width = r.width;
    const uint subgroup = gl_LocalInvocationID.x / S, subgroups = INVOCATIONS / S;
    vec4 gain_sum[PARTS], bias_sum[PARTS];
    [[unroll]] for (uint p = 0; p < PARTS; ++p) gain_sum[p] = bias_sum[p] = vec4(0.0);
    const uint end = min((group + 1) * r.chunk, r.rows);
    for (uint row = group * r.chunk + subgroup; row < end; row += subgroups) {
        const uint64_t dx = r.dx + uint64_t(row) * width * 4ul;
        const float mean = RMS == 0 ? load_float(r.mean, uint64_t(row), kF32) : 0.0;
        const float inverse = load_float(r.inverse, uint64_t(row), kF32);
        vec4 dy[PARTS], n[PARTS]; // n: the normalized x
        [[unroll]] for (uint p = 0; p < PARTS; ++p) {
            dy[p] = load_vector(r.dy + uint64_t(row) * r.dy_stride * bytes_of(TYPE), p, width, TYPE, 0.0);
            n[p] = load_vector(r.x + uint64_t(row) * r.x_stride * 4ul, p, width, kF32, mean);
        }
        vec4 sum = vec4(0.0), product = vec4(0.0);
        [[unroll]] for (uint p = 0; p < PARTS; ++p) {
            n[p] = (n[p] - mean) * inverse;
            gain_sum[p] += dy[p] * n[p];
            bias_sum[p] += dy[p];
            if (GAIN != 0) dy[p] *= load_vector(r.gain, p, width, kF32, 0.0);
            sum += dy[p];
            product += dy[p] * n[p];
        }
        const float mean_g = RMS == 0 ? lanes_sum(sum.x + sum.y + sum.z + sum.w) / float(width) : 0.0;
        const float mean_gn = lanes_sum(product.x + product.y + product.z + product.w) / float(width);
        [[unroll]] for (uint p = 0; p < PARTS; ++p) {
            vec4 y = inverse * (dy[p] - mean_g - n[p] * mean_gn);
            if (RESIDUAL != 0) {
                precise vec4 total =
                    y + load_vector(r.residual + uint64_t(row) * r.residual_stride * 4ul, p, width, kF32, 0.0);
                y = total;
            }
            store_vector(dx, p, width, y, kF32);
            if (COPY != 0) store_vector(r.copy + uint64_t(row) * width * 2ul, p, width, y, COPY);
        }
    }

    [[unroll]] for (uint which = 0; which < (RMS != 0 ? 1 : 2); ++which) {
        const uint64_t to = (which == 0 ? r.gain_sums : r.bias_sums) + group * width * 4;
        [[unroll]] for (uint p = 0; p < PARTS; ++p) {
            sums[gl_LocalInvocationID.x] = which == 0 ? gain_sum[p] : bias_sum[p];
            barrier();
            if (subgroup == 0) {
                vec4 total = sums[gl_SubgroupInvocationID];
                [[unroll]] for (uint other = 1; other < subgroups; ++other)
                    total += sums[other * S + gl_SubgroupInvocationID];
                store_vector(to, p, width, total, kF32);
            }
            barrier();
        }
    }
}
