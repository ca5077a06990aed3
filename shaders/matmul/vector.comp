#version 450
#extension GL_GOOGLE_include_directive : require
//! no-optimizer
//! variant r1 ROWS=1
//! variant r1_16 ROWS=1 STORAGE16
//! variant r2 ROWS=2
//! variant r2_16 ROWS=2 STORAGE16
//! variant r4 ROWS=4
//! variant r4_16 ROWS=4 STORAGE16
// C = A B on a GPU for at most ROWS rows a workgroup (decoding), which is limited by the loads of B: every element of B
// is loaded once, by vectors of four elements where alignment permits (VECTORS). A workgroup of 128 has ACROSS groups
// of four columns, and its threads share K: a thread multiplies blocks of four K and four columns, kSlices threads a
// group. Their sums are added pairwise through shared memory, always in the same order.
//
// Neighboring threads read neighboring memory: those of B stored [N, K] have the same columns and successive K, those
// of B stored [K, N] the same K and successive columns. The last step of a K that is not a multiple of a step begins
// earlier, as in matmul/tiled.
#include "common.glsl"
#define TYPES_ID 5
#include "matmul/tile.glsl"
#include "matmul/vectors.glsl"

layout(constant_id = 0) const uint TA = 0;      // A is stored [K, M]
layout(constant_id = 1) const uint TB = 0;      // B is stored [N, K]
layout(constant_id = 2) const uint ACROSS = 4;  // 1, 2, 4, 8 or 16
layout(constant_id = 3) const uint VECTORS = 0; // kVectorsOfA (not with TA) | kVectorsOfB | kWholeK
layout(constant_id = 4) const uint EPILOGUE = 0;
layout(local_size_x = 128) in;

const uint kSlices = 128 / ACROSS;
const uint kStep = 4 * kSlices; // K of a step
const bool kVectorA = (VECTORS & kVectorsOfA) != 0, kVectorB = (VECTORS & kVectorsOfB) != 0;

// Whether a step is loaded before the one before it is computed. Loads of single elements need the registers.
const bool kAhead = kVectorB;

// The vectors of a thread's block in the step that begins at K = `at`.
#define FETCH_A(m, at) fetch(a_base + uint64_t(at) * a_step, a_offset[m], a_along, kA, kVectorA)
#define FETCH_B(e, at) fetch(b_base + uint64_t(at) * b_step, b_offset[e], b_along, kB, kVectorB)

shared vec4 part[128 * ROWS];

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const uint K = r.k, lda = r.lda, ldb = r.ldb;
    const uint t = gl_LocalInvocationID.x;
    const uint across = TB != 0 ? t / kSlices : t % ACROSS;
    const uint slice = TB != 0 ? t % kSlices : t / ACROSS;
    const Tile tile = tile_of(r, group, ROWS, 4 * ACROSS);
    const uint rows_left = r.m - tile.m0, columns_left = r.n - tile.n0;
    const uint a_bytes = uint(bytes_of(kA)), b_bytes = uint(bytes_of(kB));

    // A block's four K, and the byte offsets of its vectors in the step at K = 0. Indices along a vector are clamped;
    // `along` has the distances to the elements after the first.
    const uint kk = slice * 4;
    const uvec4 k_index = min(uvec4(kk, kk + 1, kk + 2, kk + 3), uvec4(K - 1));
    const uint column = across * 4;
    const uvec4 n_index = min(uvec4(column, column + 1, column + 2, column + 3), uvec4(columns_left - 1));
    uint a_offset[ROWS], b_offset[4];
    [[unroll]] for (uint m = 0; m < ROWS; ++m) {
        const uint row = min(m, rows_left - 1);
        a_offset[m] = (TA != 0 ? k_index.x * lda + row : row * lda + (kVectorA ? min(kk, K - 4) : k_index.x)) * a_bytes;
    }
    [[unroll]] for (uint e = 0; e < 4; ++e)
        b_offset[e] = (TB != 0 ? n_index[e] * ldb + (kVectorB ? min(kk, K - 4) : k_index.x)
                               : k_index[e] * ldb + (kVectorB ? min(column, columns_left - 4) : n_index.x)) * b_bytes;
    const uvec3 a_along = (k_index.yzw - k_index.x) * (TA != 0 ? lda : 1) * a_bytes;
    const uvec3 b_along = (TB != 0 ? k_index.yzw - k_index.x : n_index.yzw - n_index.x) * b_bytes;
    const uint64_t a_base = tile.a + (TA != 0 ? uint64_t(tile.m0) : uint64_t(tile.m0) * lda) * a_bytes;
    const uint64_t b_base = tile.b + (TB != 0 ? uint64_t(tile.n0) * ldb : uint64_t(tile.n0)) * b_bytes;
    const uint64_t a_step = (TA != 0 ? uint64_t(lda) : 1ul) * a_bytes;
    const uint64_t b_step = (TB != 0 ? 1ul : uint64_t(ldb)) * b_bytes;

    vec4 sum[ROWS]; // four columns
    [[unroll]] for (uint m = 0; m < ROWS; ++m) sum[m] = vec4(0.0);
    const uint last = max(K, kStep) - kStep;
    uint k = tile.k0, from = min(tile.k0, last);
    uvec4 x_next[ROWS], y_next[4];
    if (kAhead) {
        [[unroll]] for (uint e = 0; e < 4; ++e) y_next[e] = FETCH_B(e, from);
        [[unroll]] for (uint m = 0; m < ROWS; ++m) x_next[m] = FETCH_A(m, from);
    }
    do {
        uvec4 x_bits[ROWS];
        vec4 y[4]; // TB: [column] along K, otherwise [K] along columns
        [[unroll]] for (uint e = 0; e < 4; ++e)
            y[e] = unpack(kAhead ? y_next[e] : FETCH_B(e, from), kB, kVectorB);
        [[unroll]] for (uint m = 0; m < ROWS; ++m) x_bits[m] = x_next[m];
        const uint now = from, shift = k - from;
        k += kStep;
        from = min(k, last);
        if (kAhead && k < tile.k1) {
            [[unroll]] for (uint e = 0; e < 4; ++e) y_next[e] = FETCH_B(e, from);
            [[unroll]] for (uint m = 0; m < ROWS; ++m) x_next[m] = FETCH_A(m, from);
        }
        bvec4 own = bvec4(true); // K of this step, not of the one before or past the end
        if (k > K) {
            own = bvec4(kk >= shift && kk < K);
            if ((VECTORS & kWholeK) == 0)
                own = bvec4(own.x, kk + 1 >= shift && kk + 1 < K, kk + 2 >= shift && kk + 2 < K,
                            kk + 3 >= shift && kk + 3 < K);
            [[unroll]] for (uint e = 0; e < 4; ++e) y[e] = mix(vec4(0.0), y[e], TB != 0 ? own : bvec4(own[e]));
        }
        [[unroll]] for (uint m = 0; m < ROWS; ++m) {
            vec4 x = unpack(kAhead ? x_bits[m] : FETCH_A(m, now), kA, kVectorA); // along K
            if (k > K) x = mix(vec4(0.0), x, own);
            [[unroll]] for (uint e = 0; e < 4; ++e)
                sum[m] = fma(vec4(x[e]), TB != 0 ? vec4(y[0][e], y[1][e], y[2][e], y[3][e]) : y[e], sum[m]);
        }
    } while (k < tile.k1);

    const uint own_part = slice * ACROSS + across;
    [[unroll]] for (uint m = 0; m < ROWS; ++m) part[m * 128 + own_part] = sum[m];
    uint half_ = kSlices / 2;
    do {
        barrier();
        if (slice < half_) {
            [[unroll]] for (uint m = 0; m < ROWS; ++m)
                part[m * 128 + own_part] += part[m * 128 + own_part + half_ * ACROSS];
        }
        half_ /= 2;
    } while (half_ > 0);
    barrier();

    // A thread for each row and group of columns.
    if (t >= ROWS * ACROSS) return;
    const uint row = t / ACROSS, first = t % ACROSS * 4;
    const uint m = tile.m0 + min(row, rows_left - 1);
    vec4 x = part[row * 128 + t % ACROSS];
    uint c = 0;
    [[dont_unroll]] do {
        const uint n = tile.n0 + min(first + c, columns_left - 1);
        const uint64_t at = uint64_t(m) * r.ldc + n;
        const float bias = (EPILOGUE & kBias) != 0 ? load_float(r.bias, n, kF32) : 0.0;
        const float residual =
            (EPILOGUE & kResidual) != 0 ? load_float(r.residual, uint64_t(m) * r.ldr + n, kF32) : 0.0;
        const float before = (EPILOGUE & kAccumulate) != 0 ? load_float(tile.c, at, kC) : 0.0;
        const float argument = has_argument(EPILOGUE) ? load_float(r.other, at, kC) : 0.0;
        const float y = finish(x.x, bias, residual, before, argument, EPILOGUE);
        if (row < rows_left && first + c < columns_left) {
            if ((EPILOGUE & kStoreBefore) != 0)
                store_float(r.other, at, before_activation(x.x, bias, EPILOGUE), kC);
            if ((EPILOGUE & kStoreActivation) != 0) store_float(r.again, at, activation_of(argument, EPILOGUE), kC);
            store_float(tile.c, at, y, kC);
        }
        x = x.yzwx;
    } while (++c < 4);
}
