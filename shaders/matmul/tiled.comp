#version 450
#extension GL_GOOGLE_include_directive : require
//! no-optimizer
//! variant t64 BM=64 BN=64 BK=16 RM=4 RN=4
//! variant t64_16 BM=64 BN=64 BK=16 RM=4 RN=4 STORAGE16
//! variant t128 BM=128 BN=128 BK=8 RM=8 RN=8
//! variant t128_16 BM=128 BN=128 BK=8 RM=8 RN=8 STORAGE16
// C = A B, a workgroup of 256 per tile of BM x BN, through shared memory (under 9 KB) and register tiles of RM x RN.
// Rows of a register tile are RM threads apart in steps of 4, so that neighbors read neighboring banks.
#include "common.glsl"
#define TYPES_ID 3
#include "matmul/tile.glsl"

layout(constant_id = 0) const uint TA = 0; // A is stored [K, M]
layout(constant_id = 1) const uint TB = 0; // B is stored [N, K]
layout(constant_id = 2) const uint EPILOGUE = 0;
layout(local_size_x = 256) in;

const uint kPad = 4;
shared float a_tile[BK * (BM + kPad)];
shared float b_tile[BK * (BN + kPad)];

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const uint M = r.m, N = r.n, K = r.k, lda = r.lda, ldb = r.ldb;
    const uint t = gl_LocalInvocationID.x;
    const Tile tile = tile_of(r, group, BM, BN);
    const uint across = t % (BN / RN), down = t / (BN / RN);

    float sum[RM * RN];
    [[unroll]] for (uint i = 0; i < RM * RN; ++i) sum[i] = 0.0;

    uint k = tile.k0;
    do {
        // Every thread loads its share of both tiles, neighbors along the dimension that is dense in memory.
        [[unroll]] for (uint q = 0; q < BM * BK / 256; ++q) {
            uint e = q * 256 + t;
            uint row = TA == 0 ? e / BK : e % BM, kk = TA == 0 ? e % BK : e / BM;
            uint m = min(tile.m0 + row, M - 1), ka = min(k + kk, K - 1);
            float value = load_float(tile.a, TA == 0 ? uint64_t(m) * lda + ka : uint64_t(ka) * lda + m, kA);
            a_tile[kk * (BM + kPad) + row] = k + kk < tile.k1 ? value : 0.0;
        }
        [[unroll]] for (uint q = 0; q < BN * BK / 256; ++q) {
            uint e = q * 256 + t;
            uint col = TB == 1 ? e / BK : e % BN, kk = TB == 1 ? e % BK : e / BN;
            uint n = min(tile.n0 + col, N - 1), kb = min(k + kk, K - 1);
            float value = load_float(tile.b, TB == 1 ? uint64_t(n) * ldb + kb : uint64_t(kb) * ldb + n, kB);
            b_tile[kk * (BN + kPad) + col] = k + kk < tile.k1 ? value : 0.0;
        }
        barrier();
        [[unroll]] for (uint kk = 0; kk < BK; ++kk) {
            float x[RM], y[RN];
            [[unroll]] for (uint i = 0; i < RM; ++i)
                x[i] = a_tile[kk * (BM + kPad) + (i / 4) * (BM / RM * 4) + down * 4 + i % 4];
            [[unroll]] for (uint j = 0; j < RN; ++j)
                y[j] = b_tile[kk * (BN + kPad) + (j / 4) * (BN / RN * 4) + across * 4 + j % 4];
            [[unroll]] for (uint i = 0; i < RM; ++i)
                [[unroll]] for (uint j = 0; j < RN; ++j) sum[i * RN + j] = fma(x[i], y[j], sum[i * RN + j]);
        }
        barrier();
        k += BK;
    } while (k < tile.k1);

    [[unroll]] for (uint i = 0; i < RM; ++i) {
        uint row = tile.m0 + (i / 4) * (BM / RM * 4) + down * 4 + i % 4;
        uint m = min(row, M - 1);
        [[unroll]] for (uint j = 0; j < RN; ++j) {
            uint column = tile.n0 + (j / 4) * (BN / RN * 4) + across * 4 + j % 4;
            uint n = min(column, N - 1);
            uint64_t at = uint64_t(m) * r.ldc + n;
            float bias = (EPILOGUE & kBias) != 0 ? load_float(r.bias, n, kF32) : 0.0;
            float residual = (EPILOGUE & kResidual) != 0 ? load_float(r.residual, uint64_t(m) * r.ldr + n, kF32) : 0.0;
            float before = (EPILOGUE & kAccumulate) != 0 ? load_float(tile.c, at, kC) : 0.0;
            float value = finish(sum[i * RN + j], bias, residual, before, EPILOGUE);
            if (row < M && column < N) store_float(tile.c, at, value, kC);
        }
    }
}
