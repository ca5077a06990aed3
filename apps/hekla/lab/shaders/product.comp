#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
//! no-optimizer
//! needs GL_KHR_cooperative_matrix
//! variant near STORAGE16
//! variant spread STORAGE16 SPREAD
//! variant deep STORAGE16 DEEP
//! variant gelu STORAGE16 GELU
//! variant gelu_short STORAGE16 GELU SHORT
//! variant gelu_batched STORAGE16 GELU SHORT BATCHED
//! variant gelu_gradient STORAGE16 GELU GRADIENT
//! variant gelu_gradient_short STORAGE16 GELU GRADIENT SHORT
// A product of float16 factors, C [M, N] = A [M, K] B, for comparisons of single decisions: sizes are multiples of the
// tile. A workgroup has four subgroups with SM x SN each; SM and SN are multiples of 16.
//   SPREAD   neighboring threads store rows of K that are four apart, so that the padded rows use different banks
//   DEEP     64 of K between barriers, not 32; of the next step only the tile of A is loaded ahead, since both take too
//            many registers
//   GELU     C is gelu(A B) in float16, by the engine's functions, which are exact and give the same bits everywhere
//   SHORT    gelu with one exponential, and the hardware's conversion to float16
//   GRADIENT C is A B times the derivative of gelu at X
//   BATCHED  the epilogue of a matrix handles four vectors at a time
#include "common.glsl"
#include "math.glsl"

HK_RECORD(Record) {
    HK_RECORD_HEAD;
    HK_READS(a);
    HK_READS(b);
    HK_WRITES(c); // float32; float16 with GELU
    HK_U32(m);
    HK_U32(n);
    HK_U32(k);
    HK_U32(rows_of_tiles); // of a super-tile: its tiles of one column follow each other
    HK_READS(x);           // float16 [M, N]; with GRADIENT only
};

layout(constant_id = 0) const uint SUBGROUP = 32;
layout(constant_id = 1) const uint MM = 16;
layout(constant_id = 2) const uint MN = 16;
layout(constant_id = 3) const uint MK = 16;
layout(constant_id = 4) const uint TA = 0; // A is stored [K, M]
layout(constant_id = 5) const uint TB = 0; // B is stored [N, K]
layout(constant_id = 6) const uint THREADS = 128; // four subgroups
layout(constant_id = 7) const uint SM = 64;
layout(constant_id = 8) const uint SN = 64;
layout(local_size_x_id = 6) in;
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Eight { uvec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Four { vec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer FourHalves { uvec2 v; };
PUSH_RECORD(Record);

const uint BM = 2 * SM, BN = 2 * SN;
#ifdef DEEP
const uint BK = 64;
#else
const uint BK = 32;
#endif
const uint kDeep = BK / 8; // units of eight elements
const uint kDown = SM / MM, kAcross = SN / MN;
const bool kMajorA = TA == 0, kMajorB = TB != 0; // dense along K
const uint kStrideA = (kMajorA ? BK : BM) / 8 + 1, kStrideB = (kMajorB ? BK : BN) / 8 + 1; // units of eight elements
const uint kSide = BM > BN ? BM : BN;
const uint kTile = kSide * kDeep + (kSide > BK ? kSide : BK);
const uint kUnitsA = BM * BK / 8 / THREADS, kUnitsB = BN * BK / 8 / THREADS; // of a thread, in a step
const uint kStripStride = MN / 4 + 1;
shared uvec4 tiles[2 * kTile];

uint row_of(uint i) {
#ifdef SPREAD
    return i / 32 * 8 + i % 32 / 8 + i / 4 % 2 * 4;
#else
    return i / kDeep;
#endif
}
// The element of a factor, from the tile's first one, with which unit i begins, and its place in shared memory. line:
// units of a K where rows are not dense along K.
uint64_t element_of(bool major, uint i, uint line, uint ld) {
    return major ? uint64_t(row_of(i)) * ld + i % kDeep * 8 : uint64_t(i / line) * ld + i % line * 8;
}
uint place_of(bool major, uint i, uint line, uint stride) {
    return major ? row_of(i) * stride + i % kDeep : i / line * stride + i % line;
}

#ifdef GRADIENT
uvec2 finished(vec4 dy, uvec2 halves) {
    const vec4 x = vec4(unpackHalf2x16(halves.x), unpackHalf2x16(halves.y));
    vec4 y;
#ifdef SHORT
    const vec4 s = 1.0 / (1.0 + exp2(x * (-2.302208198 - 0.102943240 * x * x))); // sigmoid(2 u), as below
    y = dy * (s + x * s * (1.0 - s) * (1.595769122 + 0.214064449 * x * x));
    return uvec2(packHalf2x16(y.xy), packHalf2x16(y.zw));
#else
    [[unroll]] for (uint c = 0; c < 4; ++c) y[c] = gelu_tanh_gradient(dy[c], x[c]);
    return pack_four(kF16, y);
#endif
}
#elif defined(GELU)
uvec2 finished(vec4 x) {
    vec4 y;
#ifdef SHORT
    // x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3)
    y = x / (1.0 + exp2(x * (-2.302208198 - 0.102943240 * x * x)));
    return uvec2(packHalf2x16(y.xy), packHalf2x16(y.zw));
#else
    [[unroll]] for (uint c = 0; c < 4; ++c) y[c] = gelu_tanh(x[c]);
    return pack_four(kF16, y);
#endif
}
#endif

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const uint t = gl_LocalInvocationID.x, subgroup = t / SUBGROUP, lane = t % SUBGROUP;
    const uint tiles_n = r.n / BN, of_super = r.rows_of_tiles * tiles_n;
    const uint m0 = (group / of_super * r.rows_of_tiles + group % of_super % r.rows_of_tiles) * BM;
    const uint n0 = group % of_super / r.rows_of_tiles * BN;
    const uint lda = kMajorA ? r.k : r.m, ldb = kMajorB ? r.k : r.n;
    const uint64_t a_from = r.a + (kMajorA ? uint64_t(m0) * lda : uint64_t(m0)) * 2ul;
    const uint64_t b_from = r.b + (kMajorB ? uint64_t(n0) * ldb : uint64_t(n0)) * 2ul;
    const uint first_row = subgroup / 2 * SM, first_column = subgroup % 2 * SN;

    coopmat<float, gl_ScopeSubgroup, MM, MN, gl_MatrixUseAccumulator> sum[kDown * kAcross];
    [[unroll]] for (uint i = 0; i < kDown * kAcross; ++i)
        sum[i] = coopmat<float, gl_ScopeSubgroup, MM, MN, gl_MatrixUseAccumulator>(0.0);
    uvec4 a_next[kUnitsA];
#ifndef DEEP
    uvec4 b_next[kUnitsB];
#endif
    [[unroll]] for (uint q = 0; q < kUnitsA; ++q)
        a_next[q] = Eight(a_from + element_of(kMajorA, t + q * THREADS, BM / 8, lda) * 2ul).v;
#ifndef DEEP
    [[unroll]] for (uint q = 0; q < kUnitsB; ++q)
        b_next[q] = Eight(b_from + element_of(kMajorB, t + q * THREADS, BN / 8, ldb) * 2ul).v;
#endif
    uint k = 0;
    do {
        barrier(); // the tiles of the step before have been read
        [[unroll]] for (uint q = 0; q < kUnitsA; ++q)
            tiles[place_of(kMajorA, t + q * THREADS, BM / 8, kStrideA)] = a_next[q];
#ifdef DEEP
        const uint64_t b_now = uint64_t(k) * (kMajorB ? 1 : ldb);
        [[unroll]] for (uint q = 0; q < kUnitsB; ++q)
            tiles[kTile + place_of(kMajorB, t + q * THREADS, BN / 8, kStrideB)] =
                Eight(b_from + (b_now + element_of(kMajorB, t + q * THREADS, BN / 8, ldb)) * 2ul).v;
#else
        [[unroll]] for (uint q = 0; q < kUnitsB; ++q)
            tiles[kTile + place_of(kMajorB, t + q * THREADS, BN / 8, kStrideB)] = b_next[q];
#endif
        barrier();
        k += BK;
        const uint next = min(k, r.k - BK);
        const uint64_t a_step = uint64_t(next) * (kMajorA ? 1 : lda);
        [[unroll]] for (uint q = 0; q < kUnitsA; ++q)
            a_next[q] = Eight(a_from + (a_step + element_of(kMajorA, t + q * THREADS, BM / 8, lda)) * 2ul).v;
#ifndef DEEP
        const uint64_t b_step = uint64_t(next) * (kMajorB ? 1 : ldb);
        [[unroll]] for (uint q = 0; q < kUnitsB; ++q)
            b_next[q] = Eight(b_from + (b_step + element_of(kMajorB, t + q * THREADS, BN / 8, ldb)) * 2ul).v;
#endif
        [[unroll]] for (uint kk = 0; kk < BK; kk += MK) {
            coopmat<float16_t, gl_ScopeSubgroup, MM, MK, gl_MatrixUseA> a[kDown];
            [[unroll]] for (uint i = 0; i < kDown; ++i) {
                const uint row = first_row + i * MM;
                if (kMajorA)
                    coopMatLoad(a[i], tiles, row * kStrideA + kk / 8, kStrideA, gl_CooperativeMatrixLayoutRowMajor);
                else
                    coopMatLoad(a[i], tiles, kk * kStrideA + row / 8, kStrideA, gl_CooperativeMatrixLayoutColumnMajor);
            }
            [[unroll]] for (uint j = 0; j < kAcross; ++j) {
                coopmat<float16_t, gl_ScopeSubgroup, MK, MN, gl_MatrixUseB> b;
                const uint column = first_column + j * MN;
                if (kMajorB)
                    coopMatLoad(b, tiles, kTile + column * kStrideB + kk / 8, kStrideB,
                                gl_CooperativeMatrixLayoutColumnMajor);
                else
                    coopMatLoad(b, tiles, kTile + kk * kStrideB + column / 8, kStrideB,
                                gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint i = 0; i < kDown; ++i)
                    sum[i * kAcross + j] = coopMatMulAdd(a[i], b, sum[i * kAcross + j]);
            }
        }
    } while (k < r.k);
    barrier();

    // One matrix after the other passes through shared memory; the code of the epilogue is there once.
    const uint strip = subgroup * MM * kStripStride;
    uint e = 0;
    [[dont_unroll]] do {
        [[unroll]] for (uint s = 0; s < kDown * kAcross; ++s)
            if (s == e) coopMatStore(sum[s], tiles, strip, kStripStride, gl_CooperativeMatrixLayoutRowMajor);
        subgroupMemoryBarrierShared();
        subgroupBarrier();
        const uint row = m0 + first_row + e / kAcross * MM, column = n0 + first_column + e % kAcross * MN;
#ifdef BATCHED
        [[unroll]]
#else
        [[dont_unroll]]
#endif
        for (uint u = lane; u < MM * MN / 4; u += SUBGROUP) {
            const uint line = u / (MN / 4), x = u % (MN / 4);
            const vec4 value = uintBitsToFloat(tiles[strip + line * kStripStride + x]);
            const uint64_t at = uint64_t(row + line) * r.n + column + x * 4;
#ifdef GRADIENT
            FourHalves(r.c + at * 2ul).v = finished(value, FourHalves(r.x + at * 2ul).v);
#elif defined(GELU)
            FourHalves(r.c + at * 2ul).v = finished(value);
#else
            Four(r.c + at * 4ul).v = value;
#endif
        }
        subgroupMemoryBarrierShared();
        subgroupBarrier();
    } while (++e < kDown * kAcross);
}
