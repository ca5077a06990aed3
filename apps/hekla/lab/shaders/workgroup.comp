#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
//! no-optimizer
//! spirv-1.6
//! needs GL_NV_cooperative_matrix2
//! variant f16 STORAGE16
// C [M, N] = A [M, K] B of float16 factors by matrices of a whole workgroup (VK_NV_cooperative_matrix2): the driver divides
// them among subgroups, and passes tiles of the factors through shared memory. Sizes are multiples of the tile.
#include "common.glsl"

HK_RECORD(Record) {
    HK_RECORD_HEAD;
    HK_READS(a);
    HK_READS(b);
    HK_WRITES(c); // float32
    HK_U32(m);
    HK_U32(n);
    HK_U32(k);
};

layout(constant_id = 0) const uint BM = 128;
layout(constant_id = 1) const uint BN = 128;
layout(constant_id = 2) const uint BK = 64;
layout(constant_id = 3) const uint TA = 0; // A is stored [K, M]
layout(constant_id = 4) const uint TB = 0; // B is stored [N, K]
layout(constant_id = 5) const uint THREADS = 256;
layout(local_size_x_id = 5) in;
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Factor { float16_t x[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Sums { float x[]; };
PUSH_RECORD(Record);

#define LAYOUT(name, rows, columns)                                                                                    \
    tensorLayoutNV<2> name = createTensorLayoutNV(2);                                                                  \
    name = setTensorLayoutDimensionNV(name, rows, columns);

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const uint m0 = group / (r.n / BN) * BM, n0 = group % (r.n / BN) * BN;
    tensorViewNV<2, false, 1, 0> transposed = createTensorViewNV(2, false, 1, 0);
    LAYOUT(a_layout, TA == 0 ? r.m : r.k, TA == 0 ? r.k : r.m)
    LAYOUT(b_layout, TB == 0 ? r.k : r.n, TB == 0 ? r.n : r.k)
    LAYOUT(c_layout, r.m, r.n)
    Factor a_from = Factor(r.a), b_from = Factor(r.b);
    coopmat<float, gl_ScopeWorkgroup, BM, BN, gl_MatrixUseAccumulator> sum =
        coopmat<float, gl_ScopeWorkgroup, BM, BN, gl_MatrixUseAccumulator>(0.0);
    for (uint k = 0; k < r.k; k += BK) {
        coopmat<float16_t, gl_ScopeWorkgroup, BM, BK, gl_MatrixUseA> a;
        coopmat<float16_t, gl_ScopeWorkgroup, BK, BN, gl_MatrixUseB> b;
        if (TA == 0) coopMatLoadTensorNV(a, a_from.x, 0, sliceTensorLayoutNV(a_layout, m0, BM, k, BK));
        else coopMatLoadTensorNV(a, a_from.x, 0, sliceTensorLayoutNV(a_layout, k, BK, m0, BM), transposed);
        if (TB == 0) coopMatLoadTensorNV(b, b_from.x, 0, sliceTensorLayoutNV(b_layout, k, BK, n0, BN));
        else coopMatLoadTensorNV(b, b_from.x, 0, sliceTensorLayoutNV(b_layout, n0, BN, k, BK), transposed);
        sum = coopMatMulAdd(a, b, sum);
    }
    Sums to = Sums(r.c);
    coopMatStoreTensorNV(sum, to.x, 0, sliceTensorLayoutNV(c_layout, m0, BM, n0, BN));
}
