#version 450
#extension GL_GOOGLE_include_directive : require
//! no-optimizer
//! variant t6x4 TM=6 TN=4 KU=16
//! variant t2x4 TM=2 TN=4 KU=16
//! variant t8x1 TM=8 TN=1 KU=16
// C = A B by one subgroup a tile of TM rows and TN vectors of columns, for drivers whose loads through one address for all
// lanes are loads of the processor (capability uniform_loads): A's values are loaded so, and B's S columns a vector are S
// such loads that the driver makes one of. B is dense along N. What a turn of the loop keeps is stored under a mask and with
// the counter's way through memory makes a turn dear: hence KU steps of K a turn, and the rest one by one.
#include "common.glsl"
#include "lanes.glsl"
#include "matmul/tile.glsl"

layout(constant_id = 1) const uint TA = 0;   // A is stored [K, M]
layout(constant_id = 2) const uint MAIN = 1; // K is KU or more
layout(constant_id = 3) const uint REST = 1; // a split's K is not always a multiple of KU
layout(constant_id = 4) const uint EPILOGUE = 0;

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const uint M = r.m, N = r.n, K = r.k;
    const uint lane = gl_SubgroupInvocationID;
    const Place p = place(r, group, TM, S * TN);
    const uint64_t a_step = TA == 0 ? 4ul : uint64_t(r.lda) * 4ul;
    const uint64_t b_step = uint64_t(r.ldb) * 4ul;

    uint64_t a[TM];
    [[unroll]] for (uint i = 0; i < TM; ++i) {
        const uint m = min(p.m0 + i, M - 1);
        a[i] = p.a + (TA == 0 ? uint64_t(m) * r.lda : uint64_t(m)) * 4ul;
    }
    // Where a vector would reach past the row it begins earlier; columns that another vector has are not stored.
    uint first[TN];
    uint64_t b[TN];
    [[unroll]] for (uint j = 0; j < TN; ++j) {
        first[j] = min(p.n0 + j * S, max(N, S) - S);
        b[j] = p.b + uint64_t(first[j]) * 4ul;
    }

    float sum[TM * TN];
    [[unroll]] for (uint i = 0; i < TM * TN; ++i) sum[i] = 0.0;
    uint k = p.k0;
    if (MAIN != 0) {
        // A turn may be executed with no lane active: its addresses lie in the buffers all the same.
        const uint last = K - KU;
        if (k + KU <= p.k1) {
            do {
                const uint64_t from = uint64_t(min(k, last));
                [[unroll]] for (uint kk = 0; kk < KU; ++kk) {
                    float y[TN];
                    [[unroll]] for (uint j = 0; j < TN; ++j)
                        y[j] = load_consecutive(b[j] + from * b_step + kk * b_step);
                    [[unroll]] for (uint i = 0; i < TM; ++i) {
                        const float x = load_float(a[i] + from * a_step + kk * a_step, 0ul, kF32);
                        [[unroll]] for (uint j = 0; j < TN; ++j) sum[i * TN + j] = fma(x, y[j], sum[i * TN + j]);
                    }
                }
                k += KU;
            } while (k + KU <= p.k1);
        }
    }
    if (REST != 0) {
        if (k < p.k1) {
            do {
                const uint64_t from = uint64_t(min(k, K - 1));
                float y[TN];
                [[unroll]] for (uint j = 0; j < TN; ++j) y[j] = load_consecutive(b[j] + from * b_step);
                [[unroll]] for (uint i = 0; i < TM; ++i) {
                    const float x = load_float(a[i] + from * a_step, 0ul, kF32);
                    [[unroll]] for (uint j = 0; j < TN; ++j) sum[i * TN + j] = fma(x, y[j], sum[i * TN + j]);
                }
            } while (++k < p.k1);
        }
    }

    [[unroll]] for (uint j = 0; j < TN; ++j) {
        const float bias = (EPILOGUE & kBias) != 0 ? load_consecutive(r.bias + uint64_t(first[j]) * 4ul) : 0.0;
        const uint column = first[j] + lane;
        const bool own = column >= p.n0 + j * S && column < N;
        [[unroll]] for (uint i = 0; i < TM; ++i) {
            const uint m = min(p.m0 + i, M - 1);
            const uint64_t at = p.c + (uint64_t(m) * r.ldc + first[j]) * 4ul;
            const uint64_t beside = r.residual + (uint64_t(m) * r.ldr + first[j]) * 4ul;
            const float residual = (EPILOGUE & kResidual) != 0 ? load_consecutive(beside) : 0.0;
            const float before = (EPILOGUE & kAccumulate) != 0 ? load_consecutive(at) : 0.0;
            const float y = finish(sum[i * TN + j], bias, residual, before, EPILOGUE);
            if (own && p.m0 + i < M) store_float(at, uint64_t(lane), y, kF32);
        }
    }
}
