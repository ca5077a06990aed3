#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
//! no-optimizer
//! needs GL_KHR_cooperative_matrix
//! variant f16
//! needs GL_EXT_bfloat16
//! variant bf16 BF16
// The speed of matrix units without memory: every subgroup has four matrices of sums, none of which waits for another.
#include "common.glsl"
#ifdef BF16
#extension GL_EXT_bfloat16 : require
#define TYPE bfloat16_t
#else
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define TYPE float16_t
#endif
#include "peak/record.h"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint MM = 16; // a matrix multiplication is [MM, MK] x [MK, MN]
layout(constant_id = 2) const uint MN = 16;
layout(constant_id = 3) const uint MK = 16;
PUSH_RECORD(Record);

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    coopmat<TYPE, gl_ScopeSubgroup, MM, MK, gl_MatrixUseA> a[2];
    coopmat<TYPE, gl_ScopeSubgroup, MK, MN, gl_MatrixUseB> b[2];
    coopmat<float, gl_ScopeSubgroup, MM, MN, gl_MatrixUseAccumulator> sum[kMatrixChains];
    [[unroll]] for (uint i = 0; i < 2; ++i) {
        a[i] = coopmat<TYPE, gl_ScopeSubgroup, MM, MK, gl_MatrixUseA>(TYPE(r.factor + float(i)));
        b[i] = coopmat<TYPE, gl_ScopeSubgroup, MK, MN, gl_MatrixUseB>(TYPE(r.addend + float(i)));
    }
    [[unroll]] for (uint c = 0; c < kMatrixChains; ++c)
        sum[c] = coopmat<float, gl_ScopeSubgroup, MM, MN, gl_MatrixUseAccumulator>(float(c));
    uint i = 0;
    do {
        [[unroll]] for (uint step = 0; step < kMatrixSteps; ++step)
            [[unroll]] for (uint c = 0; c < kMatrixChains; ++c)
                sum[c] = coopMatMulAdd(a[c / 2], b[c % 2], sum[c]);
    } while (++i < r.iterations);
    float all = 0.0;
    [[unroll]] for (uint c = 0; c < kMatrixChains; ++c)
        for (int e = 0; e < sum[c].length(); ++e) all += sum[c][e];
    store_float(r.sums, uint64_t(group * gl_WorkGroupSize.x + gl_LocalInvocationID.x), all, kF32);
}
