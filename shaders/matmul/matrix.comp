#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
//! no-optimizer
//! needs GL_KHR_cooperative_matrix
//! variant t128_f16 BM=128 BN=128 BK=32 STAGES=1 STORAGE16
//! variant t128x2_f16 BM=128 BN=128 BK=32 STAGES=2 STORAGE16
//! variant t128k64_f16 BM=128 BN=128 BK=64 STAGES=1 STORAGE16
//! variant t64_f16 BM=64 BN=64 BK=32 STAGES=1 STORAGE16
//! needs GL_EXT_bfloat16
//! variant t128_bf16 BM=128 BN=128 BK=32 STAGES=1 STORAGE16 BF16
//! variant t128x2_bf16 BM=128 BN=128 BK=32 STAGES=2 STORAGE16 BF16
//! variant t128k64_bf16 BM=128 BN=128 BK=64 STAGES=1 STORAGE16 BF16
//! variant t64_bf16 BM=64 BN=64 BK=32 STAGES=1 STORAGE16 BF16
// C = A B with matrix units: A and B are stored in 16 bits, sums are float32. A workgroup per tile of BM x BN; each of
// its subgroups has SM x SN of it, in cooperative matrices of the device's shape. In each step of BK along K the threads copy the
// step's tiles of A and B to shared memory as they are stored, in units of eight elements, and begin to load those of
// the next step; matrices are read from shared memory by rows or by columns. With STAGES = 2 the tiles of a step are
// stored while others still multiply those of the step before.
//
// A factor whose rows, as stored, are not aligned to eight elements is loaded by the words around a unit, and near its
// end by single elements. Rows past the end are clamped where addresses are computed, or are other elements of the
// factor; their sums are not stored. Elements past the end of K are zeros.
#include "common.glsl"
#ifdef BF16
#extension GL_EXT_bfloat16 : require
#define TYPE bfloat16_t
#else
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define TYPE float16_t
#endif
#define GROUPED_ID 12
#define TYPES_ID 13
#include "matmul/tile.glsl"
#include "matmul/vectors.glsl"

layout(constant_id = 0) const uint SUBGROUP = 32;
layout(constant_id = 1) const uint SM = 32;
layout(constant_id = 2) const uint SN = 64;
layout(constant_id = 3) const uint MM = 16; // a matrix multiplication is [MM, MK] x [MK, MN]: each 8 or 16
layout(constant_id = 4) const uint MN = 16;
layout(constant_id = 5) const uint MK = 16;
layout(constant_id = 6) const uint TA = 0;      // A is stored [K, M]
layout(constant_id = 7) const uint TB = 0;      // B is stored [N, K]
layout(constant_id = 8) const uint VECTORS = 0; // kVectorsOfC, kEightsOfA, kEightsOfB
layout(constant_id = 9) const uint THREADS = 128; // at most BM BK / 8 and BN BK / 8
layout(constant_id = 10) const uint SUMS = 0;
layout(constant_id = 11) const uint EPILOGUE = 0;
layout(local_size_x_id = 9) in;

const uint kDown = SM / MM, kAcross = SN / MN; // matrices of a subgroup
const bool kVectorC = (VECTORS & kVectorsOfC) != 0;
const bool kEightsA = (VECTORS & kEightsOfA) != 0, kEightsB = (VECTORS & kEightsOfB) != 0;
const bool kMajorA = TA == 0, kMajorB = TB != 0; // dense along K

// Shared memory, in units of eight elements, with a unit of padding per row: rows of BK along K, or BK rows.
const uint kLineA = (kMajorA ? BK : BM) / 8, kLineB = (kMajorB ? BK : BN) / 8;
const uint kStrideA = kLineA + 1, kStrideB = kLineB + 1;
const uint kUnitsA = BM * BK / 8 / THREADS, kUnitsB = BN * BK / 8 / THREADS; // of a thread, in a step
const uint kTileA = BM * (BK / 8 + 1), kTileB = BN * (BK / 8 + 1);           // the larger of both layouts
// After the last step each subgroup passes its sums through the same memory, one or two matrices at a time.
const uint kStripWidth = SUBGROUP >= 32 ? 32 : 16, kStripStride = kStripWidth / 4 + 1;
const uint kStripMatrices = kStripWidth / MN;
const uint kStrips = THREADS / SUBGROUP * MM * kStripStride;
const uint kStage = kTileA + kTileB;
shared uvec4 tiles[STAGES * kStage > kStrips ? STAGES * kStage : kStrips];

// A unit that a thread copies: eight K of a row, or (not k_major) eight rows of a K.
struct Unit {
    uint row, k;
};
Unit unit_of(bool k_major, uint i, uint rows) {
    return k_major ? Unit(i / (BK / 8), i % (BK / 8) * 8) : Unit(i % (rows / 8) * 8, i / (rows / 8));
}
uint place_of(bool k_major, uint i, uint line, uint stride) { return i / line * stride + i % line; }

// Returns the byte offset of a unit from the tile's first element in the step at K = k, inside the buffer.
uint64_t offset_of(Unit unit, bool k_major, bool in_eights, uint rows_left, uint k, uint K, uint ld) {
    const uint row = min(unit.row, rows_left - (k_major || !in_eights ? 1 : 8));
    const uint at = min(k + unit.k, K - (k_major && in_eights ? 8 : 1));
    return (k_major ? uint64_t(row) * ld + at : uint64_t(at) * ld + row) * 2ul;
}
// Loads eight elements at an even offset from a multiple of four. No word is loaded that has none of them.
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer WordsIn { uvec4 v; };
uvec4 load_words(uint64_t base, uint offset) {
    const uint first = offset & ~3u, odd = offset & 2u;
    const uvec4 x = WordsIn(base + first).v;
    const uint last = WordIn(base + (first + 12 + odd * 2)).v;
    return odd != 0 ? x >> 16 | uvec4(x.yzw, last) << 16 : x;
}
// Loads elements e and e + 1 of a unit, one by one; 0 past K.
uint load_two(uint64_t base, Unit unit, uint e, bool k_major, uint rows_left, uint k, uint K, uint ld) {
    uint bits[2];
    [[unroll]] for (uint c = 0; c < 2; ++c) {
        const Unit one = Unit(unit.row + (k_major ? 0 : e + c), k + unit.k + (k_major ? e + c : 0));
        bits[c] = uint(HalfIn(base + offset_of(one, k_major, false, rows_left, 0, K, ld)).v);
        if (one.k >= K) bits[c] = 0;
    }
    return bits[0] | bits[1] << 16;
}
// Loads a thread's units of the step at k. Near the end of the factors indices are clamped.
#define FETCH                                                                                                          \
    if (k + whole <= K) {                                                                                              \
        const uint64_t a_from = a_base + uint64_t(k) * a_step, b_from = b_base + uint64_t(k) * b_step;                 \
        [[unroll]] for (uint q = 0; q < kUnitsA; ++q)                                                                  \
            a_next[q] = kEightsA ? VectorIn(a_from + a_offset[q]).v : load_words(a_from - a_odd, a_offset[q] + a_odd); \
        [[unroll]] for (uint q = 0; q < kUnitsB; ++q)                                                                  \
            b_next[q] = kEightsB ? VectorIn(b_from + b_offset[q]).v : load_words(b_from - b_odd, b_offset[q] + b_odd); \
    } else {                                                                                                           \
        if (kEightsA)                                                                                                  \
            [[unroll]] for (uint q = 0; q < kUnitsA; ++q)                                                              \
                a_next[q] = VectorIn(a_base + offset_of(unit_of(kMajorA, t + q * THREADS, BM), kMajorA, true,          \
                                                        rows_left, k, K, lda)).v;                                      \
        if (kEightsB)                                                                                                  \
            [[unroll]] for (uint q = 0; q < kUnitsB; ++q)                                                              \
                b_next[q] = VectorIn(b_base + offset_of(unit_of(kMajorB, t + q * THREADS, BN), kMajorB, true,          \
                                                        columns_left, k, K, ldb)).v;                                   \
        if (!kEightsA || !kEightsB) {                                                                                  \
            uint e = 0; /* a loop, since there is much code per element; words move down in registers */               \
            [[dont_unroll]] do {                                                                                       \
                if (!kEightsA)                                                                                         \
                    [[unroll]] for (uint q = 0; q < kUnitsA; ++q)                                                      \
                        a_next[q] = uvec4(a_next[q].yzw, load_two(a_base, unit_of(kMajorA, t + q * THREADS, BM), e,    \
                                                                  kMajorA, rows_left, k, K, lda));                     \
                if (!kEightsB)                                                                                         \
                    [[unroll]] for (uint q = 0; q < kUnitsB; ++q)                                                      \
                        b_next[q] = uvec4(b_next[q].yzw, load_two(b_base, unit_of(kMajorB, t + q * THREADS, BN), e,    \
                                                                  kMajorB, columns_left, k, K, ldb));                  \
                e += 2;                                                                                                \
            } while (e < 8);                                                                                           \
        }                                                                                                              \
    }

// Applies the epilogue to four neighboring sums of a row, and stores them.
void store_four(Record r, Tile tile, uint row, uint column, vec4 x) {
    const uint rows_left = r.m - tile.m0, columns_left = r.n - tile.n0;
    if (row >= rows_left || column >= columns_left) return;
    const uint64_t from_first = (uint64_t(tile.m0) * r.ldc + tile.n0) * bytes_of(kC);
    const uint64_t to = tile.c + from_first, other = r.other + from_first, again = r.again + from_first;
    const uint64_t residual_from = r.residual + (uint64_t(tile.m0) * r.ldr + tile.n0) * 4ul;
    const uint64_t bias_from = r.bias + uint64_t(tile.n0) * 4ul;
    const uint at = row * r.ldc + column, residual_at = row * r.ldr + column;
    if (kVectorC) {
        const uint to_at = at * uint(bytes_of(kC));
        const vec4 bias = (EPILOGUE & kBias) != 0 ? load_vector(bias_from, column * 4, kF32) : vec4(0.0);
        const vec4 residual =
            (EPILOGUE & kResidual) != 0 ? load_vector(residual_from, residual_at * 4, kF32) : vec4(0.0);
        const vec4 before = (EPILOGUE & kAccumulate) != 0 ? load_vector(to, to_at, kC) : vec4(0.0);
        const vec4 argument = has_argument(EPILOGUE) ? load_vector(other, to_at, kC) : vec4(0.0);
        vec4 y, first, activation;
        [[unroll]] for (uint c = 0; c < 4; ++c) {
            y[c] = finish(x[c], bias[c], residual[c], before[c], argument[c], EPILOGUE);
            first[c] = before_activation(x[c], bias[c], EPILOGUE);
            if ((EPILOGUE & kStoreActivation) != 0) activation[c] = activation_of(argument[c], EPILOGUE);
        }
        if ((EPILOGUE & kStoreBefore) != 0) store_vector(other, to_at, first, kC);
        if ((EPILOGUE & kStoreActivation) != 0) store_vector(again, to_at, activation, kC);
        store_vector(to, to_at, y, kC);
        return;
    }
    [[unroll]] for (uint c = 0; c < 4; ++c) {
        if (column + c >= columns_left) return;
        const float bias = (EPILOGUE & kBias) != 0 ? load_float(bias_from, uint64_t(column + c), kF32) : 0.0;
        const float residual =
            (EPILOGUE & kResidual) != 0 ? load_float(residual_from, uint64_t(residual_at + c), kF32) : 0.0;
        const float before = (EPILOGUE & kAccumulate) != 0 ? load_float(to, uint64_t(at + c), kC) : 0.0;
        const float argument = has_argument(EPILOGUE) ? load_float(other, uint64_t(at + c), kC) : 0.0;
        if ((EPILOGUE & kStoreBefore) != 0)
            store_float(other, uint64_t(at + c), before_activation(x[c], bias, EPILOGUE), kC);
        if ((EPILOGUE & kStoreActivation) != 0)
            store_float(again, uint64_t(at + c), activation_of(argument, EPILOGUE), kC);
        store_float(to, uint64_t(at + c), finish(x[c], bias, residual, before, argument, EPILOGUE), kC);
    }
}

// Adds the threads' sums of eight rows of A or columns of B, in the order of the threads, and stores them.
void store_sums(uint64_t to, uint t, uint line, vec4 own[2], uint left) {
    tiles[t * 2] = floatBitsToUint(own[0]);
    tiles[t * 2 + 1] = floatBitsToUint(own[1]);
    barrier();
    if (t < line * 2) {
        vec4 total = uintBitsToFloat(tiles[t]);
        [[dont_unroll]] for (uint from = t + line * 2; from < THREADS * 2; from += line * 2)
            total += uintBitsToFloat(tiles[from]);
        [[unroll]] for (uint c = 0; c < 4; ++c)
            if (t * 4 + c < left) store_float(to, uint64_t(t * 4 + c), total[c], kF32);
    }
    barrier(); // the sums of the tile pass through the same memory
}

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const uint K = r.k, lda = r.lda, ldb = r.ldb;
    const uint t = gl_LocalInvocationID.x;
    const uint subgroup = t / SUBGROUP, lane = t % SUBGROUP;
    const Tile tile = tile_of(r, group, BM, BN);
    const uint rows_left = r.m - tile.m0, columns_left = r.n - tile.n0;
    const uint64_t a_base = tile.a + (kMajorA ? uint64_t(tile.m0) * lda : uint64_t(tile.m0)) * 2ul;
    const uint64_t b_base = tile.b + (kMajorB ? uint64_t(tile.n0) * ldb : uint64_t(tile.n0)) * 2ul;
    const uint first_row = subgroup / (BN / SN) * SM, first_column = subgroup % (BN / SN) * SN;

    coopmat<float, gl_ScopeSubgroup, MM, MN, gl_MatrixUseAccumulator> sum[kDown * kAcross];
    [[unroll]] for (uint i = 0; i < kDown * kAcross; ++i)
        sum[i] = coopmat<float, gl_ScopeSubgroup, MM, MN, gl_MatrixUseAccumulator>(0.0);

    // Byte offsets of a thread's units from a base that all threads have in common.
    const uint a_step = (kMajorA ? 1 : lda) * 2, b_step = (kMajorB ? 1 : ldb) * 2; // of one K
    uint a_offset[kUnitsA], b_offset[kUnitsB];
    [[unroll]] for (uint q = 0; q < kUnitsA; ++q)
        a_offset[q] = uint(offset_of(unit_of(kMajorA, t + q * THREADS, BM), kMajorA, kEightsA, rows_left, 0, K, lda));
    [[unroll]] for (uint q = 0; q < kUnitsB; ++q)
        b_offset[q] = uint(offset_of(unit_of(kMajorB, t + q * THREADS, BN), kMajorB, kEightsB, columns_left, 0, K, ldb));
    // A base of a step can be 2 bytes after a multiple of 4, in all steps, since K before a step is even.
    const uint a_odd = uint(a_base) & 2u, b_odd = uint(b_base) & 2u;
    // Eight K after a step, each at least one element further, are enough for the words around its last unit.
    const uint whole = kEightsA && kEightsB ? BK : min(lda, ldb) == 0 ? K + 1 : BK + 8;
    uvec4 a_next[kUnitsA], b_next[kUnitsB];
    vec4 factor_sum[2] = {vec4(0.0), vec4(0.0)};
    uint k = tile.k0, stage = 0;
    FETCH
    do {
        if (k + BK > K) {
            [[unroll]] for (uint q = 0; q < kUnitsA; ++q)
                if (k + unit_of(kMajorA, t + q * THREADS, BM).k >= K) a_next[q] = uvec4(0);
            [[unroll]] for (uint q = 0; q < kUnitsB; ++q)
                if (k + unit_of(kMajorB, t + q * THREADS, BN).k >= K) b_next[q] = uvec4(0);
        }
        // Without kMajorA or kMajorB all units of a thread are of the same eight rows or columns.
        if (SUMS == kSumsOfA && tile.n0 == 0)
            [[unroll]] for (uint q = 0; q < kUnitsA; ++q) {
                factor_sum[0] += unpack_four(kA, a_next[q].xy);
                factor_sum[1] += unpack_four(kA, a_next[q].zw);
            }
        if (SUMS == kSumsOfB && tile.m0 == 0)
            [[unroll]] for (uint q = 0; q < kUnitsB; ++q) {
                factor_sum[0] += unpack_four(kB, b_next[q].xy);
                factor_sum[1] += unpack_four(kB, b_next[q].zw);
            }
        if (STAGES == 1) barrier(); // the tiles of the step before have been read
        [[unroll]] for (uint q = 0; q < kUnitsA; ++q)
            tiles[stage + place_of(kMajorA, t + q * THREADS, kLineA, kStrideA)] = a_next[q];
        [[unroll]] for (uint q = 0; q < kUnitsB; ++q)
            tiles[stage + kTileA + place_of(kMajorB, t + q * THREADS, kLineB, kStrideB)] = b_next[q];
        barrier();
        k += BK;
        if (k < tile.k1) { FETCH }
        [[unroll]] for (uint kk = 0; kk < BK; kk += MK) {
            coopmat<TYPE, gl_ScopeSubgroup, MM, MK, gl_MatrixUseA> a[kDown];
            [[unroll]] for (uint i = 0; i < kDown; ++i) {
                const uint row = first_row + i * MM;
                if (kMajorA)
                    coopMatLoad(a[i], tiles, stage + row * kStrideA + kk / 8, kStrideA, gl_CooperativeMatrixLayoutRowMajor);
                else
                    coopMatLoad(a[i], tiles, stage + kk * kStrideA + row / 8, kStrideA, gl_CooperativeMatrixLayoutColumnMajor);
            }
            [[unroll]] for (uint j = 0; j < kAcross; ++j) {
                coopmat<TYPE, gl_ScopeSubgroup, MK, MN, gl_MatrixUseB> b;
                const uint column = first_column + j * MN;
                if (kMajorB)
                    coopMatLoad(b, tiles, stage + kTileA + column * kStrideB + kk / 8, kStrideB,
                                gl_CooperativeMatrixLayoutColumnMajor);
                else
                    coopMatLoad(b, tiles, stage + kTileA + kk * kStrideB + column / 8, kStrideB,
                                gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint i = 0; i < kDown; ++i)
                    sum[i * kAcross + j] = coopMatMulAdd(a[i], b, sum[i * kAcross + j]);
            }
        }
        if (STAGES == 2) stage = kStage - stage;
    } while (k < tile.k1);
    barrier();
    const uint64_t sums_to = r.sums + uint64_t(tile.k0 / r.k_split * (SUMS == kSumsOfA ? r.m : r.n)) * 4ul;
    if (SUMS == kSumsOfA && tile.n0 == 0) store_sums(sums_to + tile.m0 * 4ul, t, BM / 8, factor_sum, rows_left);
    if (SUMS == kSumsOfB && tile.m0 == 0) store_sums(sums_to + tile.n0 * 4ul, t, BN / 8, factor_sum, columns_left);

    // A strip after the other. The code of the epilogue is there once, and sums have constant indices in little code:
    // where a driver does not unroll a loop over them, they are not in registers, here and in the loop above.
    const uint strip = subgroup * MM * kStripStride;
    uint n = 0;
    [[dont_unroll]] do {
        [[unroll]] for (uint e = 0; e < kDown * kAcross; ++e)
            if (e / kStripMatrices == n)
                coopMatStore(sum[e], tiles, strip + e % kStripMatrices * (MN / 4), kStripStride,
                             gl_CooperativeMatrixLayoutRowMajor);
        subgroupMemoryBarrierShared();
        subgroupBarrier();
        const uint row = first_row + n * kStripMatrices / kAcross * MM;
        const uint column = first_column + n * kStripMatrices % kAcross * MN;
        uint u = lane;
        [[dont_unroll]] do {
            const uint line = u / (kStripWidth / 4), x = u % (kStripWidth / 4);
            store_four(r, tile, row + line, column + x * 4, uintBitsToFloat(tiles[strip + line * kStripStride + x]));
            u += SUBGROUP;
        } while (u < MM * kStripWidth / 4);
        subgroupMemoryBarrierShared();
        subgroupBarrier();
        ++n;
    } while (n < kDown * kAcross / kStripMatrices);
}
