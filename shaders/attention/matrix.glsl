// Shared by the attention kernels for matrix units (matrix_*.comp): q, k, v and dy are stored in 16 bits, scores and sums
// are float32. A workgroup computes rows of one side, ROWS per subgroup: queries (forward, dq) or keys (dk, dv). It
// processes the rows of the other side in blocks of OTHER, whose tiles all its subgroups read in shared memory.
//
// A subgroup multiplies its rows by a tile. What happens to the scores is in matrix_strip.glsl, or, with ELEMENTS, in
// matrix_elements.glsl. As in FlashAttention-2 (Dao 2023), subgroups share no rows.
#extension GL_KHR_cooperative_matrix : require
#ifdef ELEMENTS
#extension GL_NV_cooperative_matrix2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int32 : require
#endif
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require
#ifdef BF16
#extension GL_EXT_bfloat16 : require
#define TYPE bfloat16_t
const uint kType = 2;
#else
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define TYPE float16_t
const uint kType = 1;
#endif

layout(constant_id = 0) const uint D = 32;      // of queries and keys; multiples of 8
layout(constant_id = 1) const uint DV = 32;     // of values
layout(constant_id = 2) const uint ROWS = 16;   // of a subgroup: a multiple of MM (ELEMENTS: of MN), at most SUBGROUP
layout(constant_id = 3) const uint OPTIONS = 0;
layout(constant_id = 5) const uint OTHER = 32;  // a multiple of 8 SUBGROUP / ROWS
layout(constant_id = 7) const uint SUBGROUP = 32;
layout(constant_id = 8) const uint MM = 16; // a matrix multiplication is [MM, MK] x [MK, MN]: each 8 or 16
layout(constant_id = 9) const uint MN = 16;
layout(constant_id = 10) const uint MK = 16;
layout(constant_id = 11) const uint LOCKSTEP = 0; // 1: for a CPU, see wait_for_subgroup()
layout(constant_id = 12) const uint THREADS = 128; // a multiple of SUBGROUP
layout(local_size_x_id = 12) in;

#include "attention/gpu.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer GivenEights { uvec4 v; };

// A product's side along own rows, and along rows or columns of a tile.
#ifdef ELEMENTS
const uint kOwnSide = MN, kTileSide = MM;
#else
const uint kOwnSide = MM, kTileSide = MN;
#endif
const uint kSubgroups = THREADS / SUBGROUP;
const uint kOwn = ROWS * kSubgroups;
const uint kDown = ROWS / kOwnSide;
const uint kPad = kTileSide > MK ? kTileSide : MK;
const uint kWidthD = (D + kPad - 1) / kPad * kPad, kWidthV = (DV + kPad - 1) / kPad * kPad;
const uint kStepsD = kWidthD / MK, kStepsV = kWidthV / MK;                 // products along D
const uint kAcrossD = kWidthD / kTileSide, kAcrossV = kWidthV / kTileSide; // matrices across D
const uint kLanesPerRow = SUBGROUP / ROWS;
const uint SHARE = OTHER / kLanesPerRow;

// Shared memory in units of eight 16-bit or four 32-bit elements, with a unit of padding per row.
const uint kStrideD = kWidthD / 8 + 1, kStrideV = kWidthV / 8 + 1;
const uint kTileD = OTHER * kStrideD, kTileV = OTHER * kStrideV;
#ifdef ELEMENTS
const uint kPassed = kTileSide; // columns of sums that pass through a strip together
#else
const uint kPassed = OTHER;
#endif
const uint kScoreStride = kPassed / 4 + 1, kOwnStride = MK / 8 + 1;
const uint kStrip = ROWS * (kScoreStride > kOwnStride ? kScoreStride : kOwnStride);
shared uvec4 tile_d[kTileD]; // rows of q or k
shared uvec4 tile_v[kTileV]; // rows of v or dy
shared uvec4 strips[kSubgroups * kStrip];

#define thread gl_LocalInvocationID.x
#define lane (gl_LocalInvocationID.x % SUBGROUP)
#define subgroup (gl_LocalInvocationID.x / SUBGROUP)
#define strip (subgroup * kStrip)
#define lane_row (lane % ROWS)            // the row of a lane, of the subgroup's
#define lane_column (lane / ROWS * SHARE) // and its first column

#define MatrixA coopmat<TYPE, gl_ScopeSubgroup, MM, MK, gl_MatrixUseA>
#define MatrixB coopmat<TYPE, gl_ScopeSubgroup, MK, MN, gl_MatrixUseB>
#define Sums coopmat<float, gl_ScopeSubgroup, MM, MN, gl_MatrixUseAccumulator>
#ifdef ELEMENTS
#define Own MatrixB
#define kOwnLayout gl_CooperativeMatrixLayoutColumnMajor
#else
#define Own MatrixA
#define kOwnLayout gl_CooperativeMatrixLayoutRowMajor
#endif

// Subgroups call this in branches that others do not take. Mesa's CPU driver would wait there for the whole workgroup; a
// subgroup is a vector there, and needs no barrier.
void wait_for_subgroup() {
    subgroupMemoryBarrierShared();
    if (LOCKSTEP == 0) subgroupBarrier();
}

// Rows of a tensor, of which `last` is the last to read; counted from `first`.
struct Rows {
    uint64_t first;
    uint stride;
    uint last;
};
Rows rows_from(uint64_t head, uint stride, uint first, uint count, uint type) {
    return Rows(row_at(head, first, stride, type), stride, count - 1 - first);
}

// Returns the exponential of a score.
float exponential(float x) { return has(kNativeExponential) ? exp2(x * 1.44269504) : exp_of_score(x); }

// Returns whether every query of first_query .. first_query + queries - 1 sees every key of a range, by default positions.
// Then masks need not be computed.
bool all_allowed(Record r, uint first_query, uint queries, uint first_key, uint keys) {
    if (!has(kWholeBlocks) || has(kKeyPadding | kQueryPadding | kMask | kGroups | kPrefix | kPositions)) return false;
    const int last_query = int(first_query + queries) - 1, last_key = int(first_key + keys) - 1;
    return (!has(kCausal) || last_key <= int(first_query)) && (!has(kWindow) || last_query - int(first_key) < r.window) &&
           (!has(kWindowAfter) || last_key - int(first_query) < r.window_after);
}

// Loads eight elements of a row; 0 past `width`. Rows past the last repeat it.
uvec4 load_eight(Rows rows, uint row, uint column, uint width) {
    const uint at = min(row, rows.last) * rows.stride + min(column, width - 8);
    const uvec4 x = GivenEights(rows.first + uint64_t(at) * 2ul).v;
    return column < width ? x : uvec4(0);
}
// Stores four elements of a row as `type`.
void store_four(uint64_t row, uint column, uint type, vec4 x) {
    if (type == kF32) Quads(row + uint64_t(column) * 4ul).v = x;
    else HalfQuads(row + uint64_t(column) * 2ul).v = pack_four(type, x);
}

// A thread's part of a tile of OTHER rows: unit e is column e % (width / 8) of row e / (width / 8).
#define UNITS(padded) ((OTHER * (padded) / 8 + THREADS - 1) / THREADS)
#define FETCH(next, rows, width, padded)                                                                               \
    [[unroll]] for (uint hekla_q = 0; hekla_q < UNITS(padded); ++hekla_q) {                                            \
        const uint hekla_e = min(hekla_q * THREADS + thread, OTHER * (padded) / 8 - 1);                                \
        next[hekla_q] = load_eight(rows, hekla_e / ((padded) / 8), hekla_e % ((padded) / 8) * 8, width);               \
    }
#define PLACE(tile, next, padded, stride)                                                                              \
    [[unroll]] for (uint hekla_q = 0; hekla_q < UNITS(padded); ++hekla_q) {                                            \
        const uint hekla_e = min(hekla_q * THREADS + thread, OTHER * (padded) / 8 - 1);                                \
        tile[hekla_e / ((padded) / 8) * (stride) + hekla_e % ((padded) / 8)] = next[hekla_q];                          \
    }

// Loads the subgroup's own rows: matrix i * steps + k has rows i kOwnSide and columns k MK. The strip must be free, and
// is afterwards.
#define LOAD_OWN(own, rows, width, steps)                                                                              \
    [[unroll]] for (uint hekla_k = 0; hekla_k < (steps); ++hekla_k) {                                                  \
        [[unroll]] for (uint hekla_u = 0; hekla_u < ROWS * MK / 8; hekla_u += SUBGROUP) {                              \
            const uint hekla_e = min(hekla_u + lane, ROWS * MK / 8 - 1);                                               \
            strips[strip + hekla_e / (MK / 8) * kOwnStride + hekla_e % (MK / 8)] =                                     \
                load_eight(rows, hekla_e / (MK / 8), hekla_k * MK + hekla_e % (MK / 8) * 8, width);                    \
        }                                                                                                              \
        wait_for_subgroup();                                                                                           \
        [[unroll]] for (uint hekla_i = 0; hekla_i < kDown; ++hekla_i)                                                  \
            coopMatLoad(own[hekla_i * (steps) + hekla_k], strips, strip + hekla_i * kOwnSide * kOwnStride, kOwnStride, \
                        kOwnLayout);                                                                                   \
        wait_for_subgroup();                                                                                           \
    }

// The sum over the lanes of a row, in a fixed order; the same in all of them.
float sum_of_row(float x) {
    [[unroll]] for (uint step = ROWS; step < SUBGROUP; step *= 2) x += subgroupShuffleXor(x, step);
    return x;
}

#ifdef ELEMENTS
#include "attention/matrix_elements.glsl"
#else
#include "attention/matrix_strip.glsl"
#endif
