#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
//! no-optimizer
//! needs GL_KHR_cooperative_matrix
//! variant f16_f32 FACTOR=float16_t SUM=float
//! variant f16_f16 FACTOR=float16_t SUM=float16_t
//! needs GL_EXT_bfloat16
//! variant bf16_f32 FACTOR=bfloat16_t SUM=float BF16
// The speed of matrix units without memory, for one shape and type. Products are so small that sums stay finite in
// float16 after any number of iterations: where they no longer change, the work is the same.
#include "common.glsl"
#ifdef BF16
#extension GL_EXT_bfloat16 : require
#endif

HK_RECORD(Record) {
    HK_RECORD_HEAD;
    HK_WRITES(sums); // float32, one for each invocation
    HK_U32(iterations);
    HK_F32(factor);
};

const uint kChains = 4, kSteps = 8; // matrices of sums of a subgroup, multiplications of each in an iteration
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint MM = 16; // a matrix multiplication is [MM, MK] x [MK, MN]
layout(constant_id = 2) const uint MN = 16;
layout(constant_id = 3) const uint MK = 16;
PUSH_RECORD(Record);

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    coopmat<FACTOR, gl_ScopeSubgroup, MM, MK, gl_MatrixUseA> a[2];
    coopmat<FACTOR, gl_ScopeSubgroup, MK, MN, gl_MatrixUseB> b[2];
    coopmat<SUM, gl_ScopeSubgroup, MM, MN, gl_MatrixUseAccumulator> sum[kChains];
    [[unroll]] for (uint i = 0; i < 2; ++i) {
        a[i] = coopmat<FACTOR, gl_ScopeSubgroup, MM, MK, gl_MatrixUseA>(FACTOR(r.factor * float(i + 1)));
        b[i] = coopmat<FACTOR, gl_ScopeSubgroup, MK, MN, gl_MatrixUseB>(FACTOR(r.factor * float(i + 1)));
    }
    [[unroll]] for (uint c = 0; c < kChains; ++c)
        sum[c] = coopmat<SUM, gl_ScopeSubgroup, MM, MN, gl_MatrixUseAccumulator>(SUM(float(c) * r.factor));
    uint i = 0;
    do {
        [[unroll]] for (uint step = 0; step < kSteps; ++step)
            [[unroll]] for (uint c = 0; c < kChains; ++c)
                sum[c] = coopMatMulAdd(a[c / 2], b[c % 2], sum[c]);
    } while (++i < r.iterations);
    float all = 0.0;
    [[unroll]] for (uint c = 0; c < kChains; ++c)
        for (int e = 0; e < sum[c].length(); ++e) all += float(sum[c][e]);
    store_float(r.sums, uint64_t(group * gl_WorkGroupSize.x + gl_LocalInvocationID.x), all, kF32);
}
