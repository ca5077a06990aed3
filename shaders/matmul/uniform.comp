#version 450
#extension GL_GOOGLE_include_directive : require
//! no-optimizer
//! variant t6x4 TM=6 TN=4 MOST=64
//! variant t2x4 TM=2 TN=4 MOST=64
//! variant t1x6 TM=1 TN=6 MOST=64
//! variant t1x2 TM=1 TN=2 MOST=64
//! variant t8x1 TM=8 TN=1 MOST=64
//! variant t6x4_16 TM=6 TN=4 MOST=16 STORAGE16
//! variant t2x4_16 TM=2 TN=4 MOST=16 STORAGE16
//! variant t1x6_16 TM=1 TN=6 MOST=16 STORAGE16
//! variant t1x2_16 TM=1 TN=2 MOST=16 STORAGE16
//! variant t8x1_16 TM=8 TN=1 MOST=16 STORAGE16
// C = A B, one subgroup per tile of TM rows and TN vectors of columns, for drivers that execute a load with the same
// address in all lanes as one scalar load (capability uniform_loads): A is loaded this way, and the S columns of a
// vector of B are S such loads, which the driver combines into one. B is dense along N, or packed. Values that survive an
// iteration are stored under a mask, and the loop counter is kept in memory, so an iteration is expensive: it does MOST
// steps of K; then follow 16, and the rest one by one.
#include "common.glsl"
#include "lanes.glsl"
#define GROUPED_ID 8
#define TYPES_ID 9
#include "matmul/tile.glsl"

layout(constant_id = 1) const uint TA = 0;   // A is stored [K, M]
layout(constant_id = 2) const uint MANY = 0; // a split of K has MOST or more
layout(constant_id = 3) const uint SOME = 1; // a split has 16 or more, in addition to multiples of MOST
layout(constant_id = 4) const uint REST = 1; // K is not a multiple of 16
layout(constant_id = 5) const uint BY_ROWS = 0; // the order of the tiles
layout(constant_id = 6) const uint PACKED = 0;  // vectors of a panel of B (matmul/pack), which divide TN; 0: not packed
layout(constant_id = 7) const uint EPILOGUE = 0;

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const uint M = r.m, N = r.n, K = r.k;
    const uint lane = gl_SubgroupInvocationID;
    const Tile tile = BY_ROWS != 0 ? tile_by_rows(r, group, TM, S * TN) : tile_of(r, group, TM, S * TN);
    const uint64_t a_step = TA == 0 ? bytes_of(kA) : uint64_t(r.lda) * bytes_of(kA);
    const uint64_t b_step = uint64_t(r.ldb) * bytes_of(kB);

    uint64_t a[TM];
    [[unroll]] for (uint i = 0; i < TM; ++i) {
        const uint m = min(tile.m0 + i, M - 1);
        a[i] = tile.a + (TA == 0 ? uint64_t(m) * r.lda : uint64_t(m)) * bytes_of(kA);
    }
    // A vector that would reach past the row begins earlier; columns that another vector has are not stored.
    uint first[TN];
    uint64_t b[TN];
    [[unroll]] for (uint j = 0; j < TN; ++j) {
        first[j] = min(tile.n0 + j * S, max(N, S) - S);
        const uint vector = PACKED == 0 ? 0 : min(tile.n0 / S + j, (N + S * PACKED - 1) / (S * PACKED) * PACKED - 1);
        const uint64_t at = PACKED == 0 ? uint64_t(first[j]) : uint64_t(vector / PACKED) * r.ldp + vector % PACKED * S;
        b[j] = tile.b + at * bytes_of(kB);
    }

    float sum[TM * TN];
    [[unroll]] for (uint i = 0; i < TM * TN; ++i) sum[i] = 0.0;
    uint k = tile.k0;
    // An iteration may be executed with no lane active, so its addresses must be inside the buffers.
#define STEPS(count)                                                                                                   \
    if (k + (count) <= tile.k1) {                                                                                      \
        do {                                                                                                           \
            const uint64_t from = uint64_t(min(k, K - (count)));                                                       \
            [[unroll]] for (uint kk = 0; kk < (count); ++kk) {                                                         \
                float y[TN];                                                                                           \
                [[unroll]] for (uint j = 0; j < TN; ++j)                                                               \
                    y[j] = load_consecutive_of(b[j] + from * b_step + kk * b_step, kB);                                \
                [[unroll]] for (uint i = 0; i < TM; ++i) {                                                             \
                    const float x = load_float(a[i] + from * a_step + kk * a_step, 0ul, kA);                           \
                    [[unroll]] for (uint j = 0; j < TN; ++j) sum[i * TN + j] = fma(x, y[j], sum[i * TN + j]);          \
                }                                                                                                      \
            }                                                                                                          \
            k += (count);                                                                                              \
        } while (k + (count) <= tile.k1);                                                                              \
    }
    if (MANY != 0) STEPS(MOST)
    if (SOME != 0) STEPS(16)
    if (REST != 0) STEPS(1)
#undef STEPS

    [[unroll]] for (uint j = 0; j < TN; ++j) {
        const float bias = (EPILOGUE & kBias) != 0 ? load_consecutive(r.bias + uint64_t(first[j]) * 4ul) : 0.0;
        const uint column = first[j] + lane;
        const bool own = column >= tile.n0 + j * S && column < N;
        [[unroll]] for (uint i = 0; i < TM; ++i) {
            const uint m = min(tile.m0 + i, M - 1);
            const uint64_t at = tile.c + (uint64_t(m) * r.ldc + first[j]) * bytes_of(kC);
            const uint64_t residual_at = r.residual + (uint64_t(m) * r.ldr + first[j]) * 4ul;
            const float residual = (EPILOGUE & kResidual) != 0 ? load_consecutive(residual_at) : 0.0;
            const float before = (EPILOGUE & kAccumulate) != 0 ? load_consecutive_of(at, kC) : 0.0;
            const float y = finish(sum[i * TN + j], bias, residual, before, 0.0, EPILOGUE);
            if (own && tile.m0 + i < M) store_float(at, uint64_t(lane), y, kC);
        }
    }
}
