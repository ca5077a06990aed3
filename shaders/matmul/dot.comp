#version 450
#extension GL_GOOGLE_include_directive : require
//! no-optimizer
//! variant r1 TM=1 TN=8
//! variant r1_16 TM=1 TN=8 STORAGE16
//! variant r4 TM=4 TN=4
//! variant r4_16 TM=4 TN=4 STORAGE16
// C = A B for few rows of A and a B that is stored [N, K], for drivers that execute a load with the same address in all
// lanes as one scalar load (capability uniform_loads): the lanes of a subgroup share K, so that they read neighbors of a
// row of A and of TN rows of B, and add their sums at the end. A step is SPAN elements of K; the last one may reach past
// K, where both factors count as zero.
#include "common.glsl"
#include "lanes.glsl"
#define TYPES_ID 4
#include "matmul/tile.glsl"

layout(constant_id = 1) const uint REST = 1;  // K is not a multiple of SPAN
layout(constant_id = 2) const uint PAIRS = 1; // rows of A and B are even and aligned to two elements
layout(constant_id = 3) const uint EPILOGUE = 0;

// Rows of 16 bits are loaded by words, two elements a lane; then float32 is loaded by pairs.
const bool kWords = PAIRS != 0 && kB != kF32;
const uint SPAN = kWords ? 2 * S : S;

// Returns this lane's elements of the SPAN at K = k of a row; the second is 0 without kWords.
vec2 load_span(uint64_t row, uint k, uint type) {
#ifdef STORAGE16
    if (type != kF32 && kWords) {
        const uint64_t words = row + uint64_t(k) * 2ul;
        uint both = Words(words).v[0];
        [[unroll]] for (uint i = 1; i < S; ++i) both = mix(both, Words(words).v[i], is_lane[i]);
        return vec2(unpack_half(type, both & 0xFFFFu), unpack_half(type, both >> 16));
    }
    if (kWords) return load_pair(row, uint64_t(k + gl_SubgroupInvocationID * 2), kF32);
    if (type != kF32) return vec2(load_float(row, uint64_t(k + gl_SubgroupInvocationID), type), 0.0);
#endif
    return vec2(load_consecutive(row + uint64_t(k) * 4ul), 0.0);
}

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const uint M = r.m, N = r.n, K = r.k;
    const Tile tile = tile_of(r, group, TM, TN);
    uint64_t a[TM], b[TN];
    [[unroll]] for (uint i = 0; i < TM; ++i)
        a[i] = tile.a + uint64_t(min(tile.m0 + i, M - 1)) * r.lda * bytes_of(kA);
    [[unroll]] for (uint j = 0; j < TN; ++j)
        b[j] = tile.b + uint64_t(min(tile.n0 + j, N - 1)) * r.ldb * bytes_of(kB);

    vec2 sum[TM * TN];
    [[unroll]] for (uint i = 0; i < TM * TN; ++i) sum[i] = vec2(0.0);
    uint k = tile.k0;
    if (k + SPAN <= tile.k1) {
        do {
            vec2 x[TM];
            // An iteration may be executed with no lane active, so its addresses must be inside the buffers.
            const uint from = min(k, K - SPAN);
            [[unroll]] for (uint i = 0; i < TM; ++i) x[i] = load_span(a[i], from, kA);
            [[unroll]] for (uint j = 0; j < TN; ++j) {
                const vec2 y = load_span(b[j], from, kB);
                [[unroll]] for (uint i = 0; i < TM; ++i) {
                    sum[i * TN + j].x = fma(x[i].x, y.x, sum[i * TN + j].x);
                    if (kWords) sum[i * TN + j].y = fma(x[i].y, y.y, sum[i * TN + j].y);
                }
            }
            k += SPAN;
        } while (k + SPAN <= tile.k1);
    }
    if (REST != 0) {
        if (k < tile.k1) {
            const uint own = k + gl_SubgroupInvocationID * (kWords ? 2 : 1);
            [[unroll]] for (uint j = 0; j < TN; ++j) {
                const vec2 y = kWords ? load_pair(b[j], uint64_t(min(own, K - 2)), kB)
                                      : vec2(load_float(b[j], uint64_t(min(own, K - 1)), kB), 0.0);
                [[unroll]] for (uint i = 0; i < TM; ++i) {
                    const vec2 x = kWords ? load_pair(a[i], uint64_t(min(own, K - 2)), kA)
                                          : vec2(load_float(a[i], uint64_t(min(own, K - 1)), kA), 0.0);
                    if (own < tile.k1) sum[i * TN + j] = fma(x, y, sum[i * TN + j]);
                }
            }
        }
    }

    // A lane for each column.
    const uint lane = gl_SubgroupInvocationID;
    [[unroll]] for (uint first = 0; first < TN; first += S) {
        const uint column = tile.n0 + first + lane;
        const bool own = first + lane < TN && column < N;
        const uint n = min(column, N - 1);
        const float bias = (EPILOGUE & kBias) != 0 ? load_float(r.bias, n, kF32) : 0.0;
        [[unroll]] for (uint i = 0; i < TM; ++i) {
            float x = 0.0;
            [[unroll]] for (uint j = first; j < min(first + S, TN); ++j)
                x = mix(x, lanes_sum(sum[i * TN + j].x + sum[i * TN + j].y), lane == j - first);
            const uint m = min(tile.m0 + i, M - 1);
            const uint64_t at = uint64_t(m) * r.ldc + n;
            const float residual =
                (EPILOGUE & kResidual) != 0 ? load_float(r.residual, uint64_t(m) * r.ldr + n, kF32) : 0.0;
            const float before = (EPILOGUE & kAccumulate) != 0 ? load_float(tile.c, at, kC) : 0.0;
            const float argument = has_argument(EPILOGUE) ? load_float(r.other, at, kC) : 0.0;
            const float y = finish(x, bias, residual, before, argument, EPILOGUE);
            if (own && tile.m0 + i < M) {
                if ((EPILOGUE & kStoreBefore) != 0) store_float(r.other, at, before_activation(x, bias, EPILOGUE), kC);
                if ((EPILOGUE & kStoreActivation) != 0)
                    store_float(r.again, at, activation_of(argument, EPILOGUE), kC);
                store_float(tile.c, at, y, kC);
            }
        }
    }
}
