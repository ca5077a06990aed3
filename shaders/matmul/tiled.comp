#version 450
#extension GL_GOOGLE_include_directive : require
//! no-optimizer
//! variant t128 BM=128 BN=128 BK=8 RM=8 RN=8
//! variant t128_16 BM=128 BN=128 BK=8 RM=8 RN=8 STORAGE16
//! variant t128x64 BM=128 BN=64 BK=8 RM=8 RN=8
//! variant t128x64_16 BM=128 BN=64 BK=8 RM=8 RN=8 STORAGE16
//! variant t128x32 BM=128 BN=32 BK=16 RM=8 RN=4
//! variant t128x32_16 BM=128 BN=32 BK=16 RM=8 RN=4 STORAGE16
//! variant t64 BM=64 BN=64 BK=16 RM=8 RN=4
//! variant t64_16 BM=64 BN=64 BK=16 RM=8 RN=4 STORAGE16
//! variant t32x64 BM=32 BN=64 BK=16 RM=4 RN=4
//! variant t32x64_16 BM=32 BN=64 BK=16 RM=4 RN=4 STORAGE16
// C = A B on a GPU: a workgroup per tile of BM x BN, through shared memory, RM x RN sums a thread. In each step of BK
// along K the threads store the step's tiles of A and B to shared memory, begin to load the tiles of the next step to
// registers, and multiply. Loads and stores are of vectors of four elements where alignment permits (VECTORS).
//
// Both tiles are [K][row] in shared memory, "row" being a row of A or a column of B, with a vector of padding per K.
// Thread `lane` of `lanes` along a side owns the rows i / 4 * 4 * lanes + lane * 4 + i % 4, and reads them in vectors.
// An operand that is dense along rows (A stored [K, M], B stored [K, N]) is stored in vectors too; one that is dense
// along K (A as [M, K], B as [N, K]) element by element, to four K of a row.
//
// Rows and columns past the end are clamped where addresses are computed, once a tile; their sums are not stored. The
// last step along K of a K that is not a multiple of BK begins earlier, at K - BK, and elements that the step before
// had count as zero: every step has the same loads, all inside the buffers, and K stays in order.
#include "common.glsl"
#define GROUPED_ID 5
#define TYPES_ID 6
#include "matmul/tile.glsl"
#include "matmul/vectors.glsl"

layout(constant_id = 0) const uint TA = 0;      // A is stored [K, M]
layout(constant_id = 1) const uint TB = 0;      // B is stored [N, K]
layout(constant_id = 2) const uint VECTORS = 0; // kVectorsOfA | kVectorsOfB | kVectorsOfC
layout(constant_id = 3) const uint SUMS = 0;
layout(constant_id = 4) const uint EPILOGUE = 0;
layout(local_size_x = (BM / RM) * (BN / RN)) in;

const uint kThreads = (BM / RM) * (BN / RN);
const uint kDown = BM / RM, kAcross = BN / RN; // threads along a side
const uint kUnitsA = BM * BK / 4 / kThreads, kUnitsB = BN * BK / 4 / kThreads; // vectors a thread loads in a step
const bool kVectorA = (VECTORS & kVectorsOfA) != 0, kVectorB = (VECTORS & kVectorsOfB) != 0;
const bool kVectorC = (VECTORS & kVectorsOfC) != 0;
const bool kMajorA = TA == 0, kMajorB = TB != 0; // dense along K
const uint kStrideA = BM / 4 + 1, kStrideB = BN / 4 + 1;

shared vec4 a_tile[BK * (BM / 4 + 1)];
shared vec4 b_tile[BK * (BN / 4 + 1)];

// A vector that a thread loads: four K of a row, or (not k_major) four rows of a K.
struct Unit {
    uint row, k;
};
Unit unit_of(bool k_major, uint q, uint t, uint rows) {
    return k_major ? Unit(t / (BK / 4) + q * (kThreads / (BK / 4)), t % (BK / 4) * 4)
                   : Unit(t % (rows / 4) * 4, t / (rows / 4) + q * (kThreads / (rows / 4)));
}
// Returns the distance in shared memory from a thread's first unit to unit q, in vectors.
uint distance_of(bool k_major, uint q, uint rows, uint stride) {
    return k_major ? q * (kThreads / (BK / 4)) / 4 : q * (kThreads / (rows / 4)) * stride;
}

// Returns the byte offset of a unit from the tile's first element in the step at K = 0, inside the buffer.
uint offset_of(Unit unit, bool k_major, bool vectors, uint rows_left, uint K, uint ld, uint bytes) {
    const uint width = vectors ? 4 : 1;
    return k_major ? (min(unit.row, rows_left - 1) * ld + min(unit.k, K - width)) * bytes
                   : (min(unit.k, K - 1) * ld + min(unit.row, rows_left - width)) * bytes;
}

// Zeroes elements of a unit that belong to the step before (`shift` of them) or are past the end.
vec4 masked(vec4 x, Unit unit, bool k_major, uint shift, uint K) {
    const uvec4 k = k_major ? uvec4(unit.k, unit.k + 1, unit.k + 2, unit.k + 3) : uvec4(unit.k);
    return mix(vec4(0.0), x, bvec4(k.x >= shift && k.x < K, k.y >= shift && k.y < K, k.z >= shift && k.z < K,
                                   k.w >= shift && k.w < K));
}

// Applies the epilogue to RN columns of one row of the register tile, and stores them.
void store_row(Record r, Tile tile, uint row, uint first_column, vec4 bias[RN / 4], float x[RN]) {
    const uint64_t from_first = (uint64_t(tile.m0) * r.ldc + tile.n0) * bytes_of(kC);
    const uint64_t to = tile.c + from_first, other = r.other + from_first, again = r.again + from_first;
    const uint64_t residual_from = r.residual + (uint64_t(tile.m0) * r.ldr + tile.n0) * 4ul;
    const uint rows_left = r.m - tile.m0, columns_left = r.n - tile.n0;
    const uint m = min(row, rows_left - 1);
    [[unroll]] for (uint g = 0; g < RN / 4; ++g) {
        const uint column = g * (4 * kAcross) + first_column;
        if (kVectorC) {
            const uint n = min(column, columns_left - 4);
            const uint at = (m * r.ldc + n) * uint(bytes_of(kC));
            const vec4 residual =
                (EPILOGUE & kResidual) != 0 ? load_vector(residual_from, (m * r.ldr + n) * 4, kF32) : vec4(0.0);
            const vec4 before = (EPILOGUE & kAccumulate) != 0 ? load_vector(to, at, kC) : vec4(0.0);
            const vec4 argument = has_argument(EPILOGUE) ? load_vector(other, at, kC) : vec4(0.0);
            vec4 y, first, activation;
            [[unroll]] for (uint c = 0; c < 4; ++c) {
                y[c] = finish(x[g * 4 + c], bias[g][c], residual[c], before[c], argument[c], EPILOGUE);
                first[c] = before_activation(x[g * 4 + c], bias[g][c], EPILOGUE);
                if ((EPILOGUE & kStoreActivation) != 0) activation[c] = activation_of(argument[c], EPILOGUE);
            }
            if (row < rows_left && column < columns_left) {
                if ((EPILOGUE & kStoreBefore) != 0) store_vector(other, at, first, kC);
                if ((EPILOGUE & kStoreActivation) != 0) store_vector(again, at, activation, kC);
                store_vector(to, at, y, kC);
            }
        } else {
            [[unroll]] for (uint c = 0; c < 4; ++c) {
                const uint n = min(column + c, columns_left - 1);
                const uint at = m * r.ldc + n;
                const float residual =
                    (EPILOGUE & kResidual) != 0 ? load_float(residual_from, uint64_t(m * r.ldr + n), kF32) : 0.0;
                const float before = (EPILOGUE & kAccumulate) != 0 ? load_float(to, uint64_t(at), kC) : 0.0;
                const float argument = has_argument(EPILOGUE) ? load_float(other, uint64_t(at), kC) : 0.0;
                const float y = finish(x[g * 4 + c], bias[g][c], residual, before, argument, EPILOGUE);
                if (row < rows_left && column + c < columns_left) {
                    if ((EPILOGUE & kStoreBefore) != 0)
                        store_float(other, uint64_t(at), before_activation(x[g * 4 + c], bias[g][c], EPILOGUE), kC);
                    if ((EPILOGUE & kStoreActivation) != 0)
                        store_float(again, uint64_t(at), activation_of(argument, EPILOGUE), kC);
                    store_float(to, uint64_t(at), y, kC);
                }
            }
        }
    }
}

// Adds the threads' sums of four rows of A or columns of B, in the order of the threads, and stores them.
void store_sums(uint64_t to, uint t, uint line, vec4 own, uint left) {
    barrier(); // the tiles of the last step have been read
    a_tile[t] = own;
    barrier();
    if (t >= line) return;
    vec4 total = a_tile[t];
    [[dont_unroll]] for (uint from = t + line; from < kThreads; from += line) total += a_tile[from];
    [[unroll]] for (uint c = 0; c < 4; ++c)
        if (t * 4 + c < left) store_float(to, uint64_t(t * 4 + c), total[c], kF32);
}

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const uint K = r.k, lda = r.lda, ldb = r.ldb;
    const uint t = gl_LocalInvocationID.x;
    const uint across = t % kAcross, down = t / kAcross;
    const Tile tile = tile_of(r, group, BM, BN);
    const uint rows_left = r.m - tile.m0, columns_left = r.n - tile.n0;
    const uint a_bytes = uint(bytes_of(kA)), b_bytes = uint(bytes_of(kB));

    // Every thread's share of the loads: byte offsets from a base that all threads have in common.
    uint a_offset[kUnitsA], b_offset[kUnitsB];
    [[unroll]] for (uint q = 0; q < kUnitsA; ++q)
        a_offset[q] = offset_of(unit_of(kMajorA, q, t, BM), kMajorA, kVectorA, rows_left, K, lda, a_bytes);
    [[unroll]] for (uint q = 0; q < kUnitsB; ++q)
        b_offset[q] = offset_of(unit_of(kMajorB, q, t, BN), kMajorB, kVectorB, columns_left, K, ldb, b_bytes);
    const Unit a_first = unit_of(kMajorA, 0, t, BM), b_first = unit_of(kMajorB, 0, t, BN);
    const uint a_to = a_first.k * kStrideA + a_first.row / 4, b_to = b_first.k * kStrideB + b_first.row / 4;
    const uint a_left = kMajorA ? K - min(a_first.k, K - 1) : rows_left - min(a_first.row, rows_left - 1);
    const uint b_left = kMajorB ? K - min(b_first.k, K - 1) : columns_left - min(b_first.row, columns_left - 1);
    const uvec3 a_along = min(uvec3(1, 2, 3), uvec3(a_left - 1)) * a_bytes;
    const uvec3 b_along = min(uvec3(1, 2, 3), uvec3(b_left - 1)) * b_bytes;
    const uint64_t a_base = tile.a + (kMajorA ? uint64_t(tile.m0) * lda : uint64_t(tile.m0)) * a_bytes;
    const uint64_t b_base = tile.b + (kMajorB ? uint64_t(tile.n0) * ldb : uint64_t(tile.n0)) * b_bytes;
    const uint64_t a_step = (kMajorA ? 1ul : uint64_t(lda)) * a_bytes;
    const uint64_t b_step = (kMajorB ? 1ul : uint64_t(ldb)) * b_bytes;

    float sum[RM * RN];
    [[unroll]] for (uint i = 0; i < RM * RN; ++i) sum[i] = 0.0;

    vec4 factor_sum = vec4(0.0);

    const uint last = max(K, BK) - BK; // where the last step begins
    uint k = tile.k0, from = min(tile.k0, last);
    uvec4 a_next[kUnitsA], b_next[kUnitsB];
    [[unroll]] for (uint q = 0; q < kUnitsA; ++q)
        a_next[q] = fetch(a_base + uint64_t(from) * a_step, a_offset[q], a_along, kA, kVectorA);
    [[unroll]] for (uint q = 0; q < kUnitsB; ++q)
        b_next[q] = fetch(b_base + uint64_t(from) * b_step, b_offset[q], b_along, kB, kVectorB);
    do {
        vec4 a_now[kUnitsA], b_now[kUnitsB];
        [[unroll]] for (uint q = 0; q < kUnitsA; ++q) a_now[q] = unpack(a_next[q], kA, kVectorA);
        [[unroll]] for (uint q = 0; q < kUnitsB; ++q) b_now[q] = unpack(b_next[q], kB, kVectorB);
        if (k + BK > K) {
            [[unroll]] for (uint q = 0; q < kUnitsA; ++q)
                a_now[q] = masked(a_now[q], unit_of(kMajorA, q, t, BM), kMajorA, k - from, K);
            [[unroll]] for (uint q = 0; q < kUnitsB; ++q)
                b_now[q] = masked(b_now[q], unit_of(kMajorB, q, t, BN), kMajorB, k - from, K);
        }
        // Without kMajorA or kMajorB all units of a thread are of the same four rows or columns.
        if (SUMS == kSumsOfA && tile.n0 == 0)
            [[unroll]] for (uint q = 0; q < kUnitsA; ++q) factor_sum += a_now[q];
        if (SUMS == kSumsOfB && tile.m0 == 0)
            [[unroll]] for (uint q = 0; q < kUnitsB; ++q) factor_sum += b_now[q];
        barrier(); // the tiles of the step before have been read
        [[unroll]] for (uint q = 0; q < kUnitsA; ++q) {
            const uint to = a_to + distance_of(kMajorA, q, BM, kStrideA);
            if (!kMajorA) a_tile[to] = a_now[q];
            else [[unroll]] for (uint e = 0; e < 4; ++e) a_tile[to + e * kStrideA][a_first.row % 4] = a_now[q][e];
        }
        [[unroll]] for (uint q = 0; q < kUnitsB; ++q) {
            const uint to = b_to + distance_of(kMajorB, q, BN, kStrideB);
            if (!kMajorB) b_tile[to] = b_now[q];
            else [[unroll]] for (uint e = 0; e < 4; ++e) b_tile[to + e * kStrideB][b_first.row % 4] = b_now[q][e];
        }
        barrier();
        k += BK;
        from = min(k, last);
        if (k < tile.k1) {
            [[unroll]] for (uint q = 0; q < kUnitsA; ++q)
                a_next[q] = fetch(a_base + uint64_t(from) * a_step, a_offset[q], a_along, kA, kVectorA);
            [[unroll]] for (uint q = 0; q < kUnitsB; ++q)
                b_next[q] = fetch(b_base + uint64_t(from) * b_step, b_offset[q], b_along, kB, kVectorB);
        }
        [[unroll]] for (uint kk = 0; kk < BK; ++kk) {
            vec4 x[RM / 4];
            [[unroll]] for (uint g = 0; g < RM / 4; ++g) x[g] = a_tile[kk * kStrideA + g * kDown + down];
            [[unroll]] for (uint g = 0; g < RN / 4; ++g) {
                const vec4 y = b_tile[kk * kStrideB + g * kAcross + across];
                [[unroll]] for (uint i = 0; i < RM; ++i)
                    [[unroll]] for (uint j = 0; j < 4; ++j) {
                        const uint at = i * RN + g * 4 + j;
                        sum[at] = fma(x[i / 4][i % 4], y[j], sum[at]);
                    }
            }
        }
    } while (k < tile.k1);

    const uint64_t sums_to = r.sums + uint64_t(tile.k0 / r.k_split * (SUMS == kSumsOfA ? r.m : r.n)) * 4ul;
    if (SUMS == kSumsOfA && tile.n0 == 0) store_sums(sums_to + tile.m0 * 4ul, t, BM / 4, factor_sum, rows_left);
    if (SUMS == kSumsOfB && tile.m0 == 0) store_sums(sums_to + tile.n0 * 4ul, t, BN / 4, factor_sum, columns_left);

    vec4 bias[RN / 4];
    [[unroll]] for (uint g = 0; g < RN / 4; ++g) {
        const uint column = g * (4 * kAcross) + across * 4;
        bias[g] = vec4(0.0);
        if ((EPILOGUE & kBias) != 0) {
            const uint64_t bias_from = r.bias + uint64_t(tile.n0) * 4ul;
            if (kVectorC)
                bias[g] = load_vector(bias_from, min(column, columns_left - 4) * 4, kF32);
            else
                [[unroll]] for (uint c = 0; c < 4; ++c)
                    bias[g][c] = load_float(bias_from, uint64_t(min(column + c, columns_left - 1)), kF32);
        }
    }
    if (kVectorC && kC == kF32 && (EPILOGUE >> kActivationShift) == 0) {
        [[unroll]] for (uint i = 0; i < RM; ++i) {
            float x[RN];
            [[unroll]] for (uint j = 0; j < RN; ++j) x[j] = sum[i * RN + j];
            store_row(r, tile, (i / 4) * (4 * kDown) + down * 4 + i % 4, across * 4, bias, x);
        }
        return;
    }
    // Much code per element: a loop with the code of one row. The rows move up, since registers have no index.
    uint i = 0;
    [[dont_unroll]] do {
        float x[RN];
        [[unroll]] for (uint j = 0; j < RN; ++j) x[j] = sum[j];
        store_row(r, tile, (i / 4) * (4 * kDown) + down * 4 + i % 4, across * 4, bias, x);
        [[unroll]] for (uint e = 0; e < (RM - 1) * RN; ++e) sum[e] = sum[e + RN];
    } while (++i < RM);
}
