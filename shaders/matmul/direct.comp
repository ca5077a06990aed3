#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
//! no-optimizer
//! variant t64x4 TM=64 TN=4 KU=4
//! variant t32x4 TM=32 TN=4 KU=4
//! variant t16x4 TM=16 TN=4 KU=4
//! variant t4x4 TM=4 TN=4 KU=4
//! variant t1x4 TM=1 TN=4 KU=4
//! variant t64x4_16 TM=64 TN=4 KU=4 STORAGE16
//! variant t32x4_16 TM=32 TN=4 KU=4 STORAGE16
//! variant t16x4_16 TM=16 TN=4 KU=4 STORAGE16
//! variant t4x4_16 TM=4 TN=4 KU=4 STORAGE16
//! variant t1x4_16 TM=1 TN=4 KU=4 STORAGE16
// C = A B, one subgroup per tile, without shared memory: TM rows, TN columns per lane. The lanes load the values of B
// that they use. They load A together, each its share of the tile, and exchange it by broadcasts from constant lanes,
// because a driver that turns every load into a gather needs as much time for one value as for sixteen. A row of the
// tile processes all of a step's K at once, so that its sums stay in registers; the sums of a whole tile would not fit.
#include "common.glsl"
#define GROUPED_ID 6
#define TYPES_ID 7
#include "matmul/tile.glsl"

layout(constant_id = 0) const uint S = 8;  // lanes of the subgroup, and of the workgroup
layout(constant_id = 1) const uint TA = 0; // A is stored [K, M]
layout(constant_id = 2) const uint TB = 0; // B is stored [N, K]
layout(constant_id = 3) const uint WA = 1; // elements of A per load, 1 or 2: with 2 its rows are even and aligned to 8
layout(constant_id = 4) const uint WB = 1;
layout(constant_id = 5) const uint EPILOGUE = 0;
layout(local_size_x_id = 0) in;

// Number of the subgroup's loads for A's part of a step.
const uint SLOTS = (TM * KU + S * WA - 1) / (S * WA);

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const uint M = r.m, N = r.n, K = r.k, lda = r.lda, ldb = r.ldb;
    const uint lane = gl_SubgroupInvocationID;
    const Tile tile = tile_of(r, group, TM, S * TN);

    // Where this lane's share of A begins: element a_kk of a step, in row or (TA) column m.
    uint64_t a_from[SLOTS];
    uint a_kk[SLOTS];
    [[unroll]] for (uint q = 0; q < SLOTS; ++q) {
        uint e = min((q * S + lane) * WA, TM * KU - WA);
        uint m = tile.m0 + (TA == 0 ? e / KU : e % TM);
        a_kk[q] = TA == 0 ? e % KU : e / TM;
        m = min(m, TA == 0 ? M - 1 : M - WA);
        a_from[q] = tile.a + (TA == 0 ? uint64_t(m) * lda : uint64_t(m)) * bytes_of(kA);
    }
    // This lane's columns.
    uint column[TN];
    uint64_t b_from[TN];
    [[unroll]] for (uint j = 0; j < TN; ++j) {
        bool pairs = TB == 0 && WB == 2;
        column[j] = pairs ? tile.n0 + (lane + S * (j / 2)) * 2 + j % 2 : tile.n0 + lane + S * j;
        uint n = min(column[j], pairs ? N - 2 + j % 2 : N - 1);
        b_from[j] = tile.b + (TB == 0 ? uint64_t(n) : uint64_t(n) * ldb) * bytes_of(kB);
    }
    const uint64_t a_step = (TA == 0 ? 1ul : uint64_t(lda)) * bytes_of(kA);
    const uint64_t b_step = (TB == 0 ? uint64_t(ldb) : 1ul) * bytes_of(kB);
    const uint a_last = TA == 0 ? K - WA : K - 1;
    const uint b_last = TB == 1 ? K - WB : K - 1;

    float sum[TM * TN];
    [[unroll]] for (uint i = 0; i < TM * TN; ++i) sum[i] = 0.0;

    uint k = tile.k0;
    do {
        vec2 x[SLOTS];
        [[unroll]] for (uint q = 0; q < SLOTS; ++q) {
            uint ka = k + a_kk[q];
            uint64_t at = a_from[q] + uint64_t(min(ka, a_last)) * a_step;
            vec2 value = WA == 2 ? load_pair(at, 0ul, kA) : vec2(load_float(at, 0ul, kA), 0.0);
            x[q] = ka < tile.k1 ? value : vec2(0.0);
        }
        float y[KU * TN];
        [[unroll]] for (uint k2 = 0; k2 < KU; k2 += 2) {
            uint64_t even = uint64_t(min(k + k2, b_last)) * b_step;
            uint64_t odd = uint64_t(min(k + k2 + 1, b_last)) * b_step;
            [[unroll]] for (uint j = 0; j < TN; ++j) {
                if (WB == 2 && TB == 1) {
                    vec2 pair = load_pair(b_from[j] + even, 0ul, kB);
                    y[k2 * TN + j] = pair.x;
                    y[(k2 + 1) * TN + j] = pair.y;
                } else if (WB == 2) {
                    if (j % 2 == 0) {
                        vec2 pair = load_pair(b_from[j] + even, 0ul, kB);
                        y[k2 * TN + j] = pair.x;
                        y[k2 * TN + j + 1] = pair.y;
                        pair = load_pair(b_from[j] + odd, 0ul, kB);
                        y[(k2 + 1) * TN + j] = pair.x;
                        y[(k2 + 1) * TN + j + 1] = pair.y;
                    }
                } else {
                    y[k2 * TN + j] = load_float(b_from[j] + even, 0ul, kB);
                    y[(k2 + 1) * TN + j] = load_float(b_from[j] + odd, 0ul, kB);
                }
            }
        }
        [[unroll]] for (uint i = 0; i < TM; ++i) {
            float part[TN];
            [[unroll]] for (uint j = 0; j < TN; ++j) part[j] = 0.0;
            [[unroll]] for (uint kk = 0; kk < KU; ++kk) {
                uint e = TA == 0 ? i * KU + kk : kk * TM + i;
                uint from = (e / WA) % S;
                vec2 share = x[e / (S * WA)];
                float factor = subgroupBroadcast(WA == 2 && e % 2 == 1 ? share.y : share.x, from);
                [[unroll]] for (uint j = 0; j < TN; ++j) part[j] = fma(factor, y[kk * TN + j], part[j]);
            }
            [[unroll]] for (uint j = 0; j < TN; ++j) sum[i * TN + j] += part[j];
        }
        k += KU;
    } while (k < tile.k1);

    float bias[TN];
    [[unroll]] for (uint j = 0; j < TN; ++j)
        bias[j] = (EPILOGUE & kBias) != 0 ? load_float(r.bias, min(column[j], N - 1), kF32) : 0.0;
    [[unroll]] for (uint i = 0; i < TM; ++i) {
        uint m = min(tile.m0 + i, M - 1);
        [[unroll]] for (uint j = 0; j < TN; ++j) {
            uint n = min(column[j], N - 1);
            uint64_t at = uint64_t(m) * r.ldc + n;
            float residual = (EPILOGUE & kResidual) != 0 ? load_float(r.residual, uint64_t(m) * r.ldr + n, kF32) : 0.0;
            float before = (EPILOGUE & kAccumulate) != 0 ? load_float(tile.c, at, kC) : 0.0;
            float argument = has_argument(EPILOGUE) ? load_float(r.other, at, kC) : 0.0;
            float y = finish(sum[i * TN + j], bias[j], residual, before, argument, EPILOGUE);
            if (tile.m0 + i < M && column[j] < N) {
                if ((EPILOGUE & kStoreBefore) != 0)
                    store_float(r.other, at, before_activation(sum[i * TN + j], bias[j], EPILOGUE), kC);
                if ((EPILOGUE & kStoreActivation) != 0)
                    store_float(r.again, at, activation_of(argument, EPILOGUE), kC);
                store_float(tile.c, at, y, kC);
            }
        }
    }
}
