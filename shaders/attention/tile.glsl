// Shared by the attention kernels for GPUs (tiled_*.comp). A workgroup computes kOwn rows: queries (forward, dq) or keys
// (dk, dv). It processes the rows of the other side in blocks of kOther, in two steps:
//
//     multiply  s [kOwn, kOther] = own [kOwn, D] other [kOther, D]^T, over D by CHUNK columns of both through shared memory
//     apply     sums [kOwn, width] += s x [kOther, width], over kOther by slices, s and x through shared memory
//
// The tiling is that of FlashAttention-2 (Dao 2023). DOWN * ACROSS threads, of which thread (down, across) has 4 x 4 of
// s: rows 4 down + i and columns 4 across + j, as s[j][i]. Slice j has the rows 4 across + j of x. Nothing depends on the
// subgroup size.
layout(constant_id = 0) const uint D = 32;       // of queries and keys
layout(constant_id = 1) const uint DV = 32;      // of values
layout(constant_id = 2) const uint W = 1;        // elements per load: with 4 D, DV, all strides and offsets are multiples of 4
layout(constant_id = 3) const uint OPTIONS = 0;
layout(constant_id = 5) const uint ROLLED = 0;   // 1: the longest loops are not unrolled, for drivers that compile slowly

// Runs `body` for i = 0 .. count - 1.
#define EACH(i, count, body)                                                                                           \
    if (ROLLED == 0) {                                                                                                 \
        [[unroll]] for (uint i = 0; i < (count); ++i) {                                                                \
            body                                                                                                       \
        }                                                                                                              \
    } else {                                                                                                           \
        uint i = 0;                                                                                                    \
        [[dont_unroll]] do {                                                                                           \
            body                                                                                                       \
        } while (++i < (count));                                                                                       \
    }

layout(local_size_x = DOWN * ACROSS) in;

#include "attention/gpu.glsl"

const uint kThreads = DOWN * ACROSS;
const uint kOwn = 4 * DOWN;
const uint kOther = 4 * ACROSS;
const uint kSlice = ACROSS; // rows of x
const uint kChunkQuads = CHUNK / 4;
const uint kChunkStride = kChunkQuads + 1; // odd, so that neighbors read different banks
const uint kShared = (kOwn + kOther) * kChunkStride;
const uint kTileStride = DOWN + 1;

// multiply: rows of CHUNK columns, first the own ones, then the others, each with row 4 n + i at i rows / 4 + n; apply:
// rows of x.
shared vec4 chunk[kShared];
// Column `across` of a slice of s: [across][down], four own rows each. Also for exchanging one value per own row and thread.
shared vec4 tile[ACROSS * kTileStride];

#define thread gl_LocalInvocationID.x
#define across (gl_LocalInvocationID.x % ACROSS)
#define down (gl_LocalInvocationID.x / ACROSS)

// How `apply` distributes the columns of its sums: in quads of 4, `columns` threads across and `parts` quads per thread.
// With ACROSS / 2 columns, where this wastes fewer threads, a thread has two rows instead of four.
uint quads_of(uint width) { return (width + 3) / 4; }
#define COLUMNS(width) ((((width) + 3) / 4 + ACROSS / 2 - 1) / (ACROSS / 2) % 2 == 1 ? ACROSS / 2 : ACROSS)
const uint kColumnsD = COLUMNS(D);
const uint kColumnsV = COLUMNS(DV);
const uint kRowsD = kColumnsD == ACROSS ? 4 : 2;
const uint kRowsV = kColumnsV == ACROSS ? 4 : 2;
const uint kPartsD = ((D + 3) / 4 + kColumnsD - 1) / kColumnsD;
const uint kPartsV = ((DV + 3) / 4 + kColumnsV - 1) / kColumnsV;
// Rows of x that fit into `chunk`: a power of two, at most a slice.
#define FITTING(quads) \
    (kShared / (quads) >= 32 && kSlice >= 32 ? 32 : kShared / (quads) >= 16 && kSlice >= 16 ? 16 : kShared / (quads) >= 8 ? 8 : 4)
const uint kTakeD = FITTING(kColumnsD * kPartsD);
const uint kTakeV = FITTING(kColumnsV * kPartsV);

// Rows of a tensor: the address of a block's first row, elements between rows, and the index of the tensor's last row
// counted from the first. The host checks that a block is smaller than 4 GB.
struct Rows {
    uint64_t first;
    uint stride;
    uint last;
    uint type; // how it is stored: a constant
};
Rows rows_from(uint64_t head, uint stride, uint first, uint count, uint type) {
    return Rows(row_at(head, first, stride, type), stride, count - 1 - first, type);
}

// Returns columns d .. d + 3 of the row that begins at element `at`; 0 past `width`.
vec4 load_quad(Rows rows, uint at, uint d, uint width) {
#ifdef STORAGE16
    if (rows.type != kF32) {
        if (W == 4) {
            const vec4 x = unpack_four(rows.type, GivenHalfQuads(rows.first + uint64_t((at + min(d, width - 4)) * 2)).v);
            return d < width ? x : vec4(0.0);
        }
        vec4 x;
        [[unroll]] for (uint c = 0; c < 4; ++c) {
            const uint bits = uint(GivenHalves(rows.first + uint64_t((at + min(d + c, width - 1)) * 2)).v);
            const float value = unpack_half(rows.type, bits);
            x[c] = d + c < width ? value : 0.0;
        }
        return x;
    }
#endif
    if (W == 4) {
        const vec4 x = GivenQuads(rows.first + uint64_t((at + min(d, width - 4)) * 4)).v;
        return d < width ? x : vec4(0.0);
    }
    vec4 x;
    [[unroll]] for (uint c = 0; c < 4; ++c) {
        const float value = GivenFloats(rows.first + uint64_t((at + min(d + c, width - 1)) * 4)).v;
        x[c] = d + c < width ? value : 0.0;
    }
    return x;
}
void store_quad(Rows rows, uint at, uint d, uint width, bool in_range, vec4 x) {
#ifdef STORAGE16
    if (rows.type != kF32 && W == 4) {
        if (in_range && d < width)
            HalfQuads(rows.first + uint64_t((at + min(d, width - 4)) * 2)).v = pack_four(rows.type, x);
        return;
    }
#endif
    if (W == 4) {
        if (in_range && d < width) Quads(rows.first + uint64_t((at + min(d, width - 4)) * 4)).v = x;
        return;
    }
    [[unroll]] for (uint c = 0; c < 4; ++c)
        if (in_range && d + c < width) store_float(rows.first, uint64_t(at + min(d + c, width - 1)), x[c], rows.type);
}

uint chunk_slot(uint row, uint rows) { return (row % 4 * (rows / 4) + row / 4) * kChunkStride; }

const uint kOwnLoads = (kOwn * kChunkQuads + kThreads - 1) / kThreads;
const uint kOtherLoads = (kOther * kChunkQuads + kThreads - 1) / kThreads;

// Loads columns c .. c + CHUNK - 1 of both sides for this thread.
void load_chunk(out vec4 own_quads[kOwnLoads], out vec4 other_quads[kOtherLoads], Rows own, Rows other, uint c,
                uint width) {
    [[unroll]] for (uint q = 0; q < kOwnLoads; ++q) {
        const uint e = min(q * kThreads + thread, kOwn * kChunkQuads - 1);
        own_quads[q] = load_quad(own, min(e / kChunkQuads, own.last) * own.stride, c + e % kChunkQuads * 4, width);
    }
    [[unroll]] for (uint q = 0; q < kOtherLoads; ++q) {
        const uint e = min(q * kThreads + thread, kOther * kChunkQuads - 1);
        other_quads[q] =
            load_quad(other, min(e / kChunkQuads, other.last) * other.stride, c + e % kChunkQuads * 4, width);
    }
}

// Adds own . other over `width` columns to s. `chunk` must be free, and is afterwards. PREFETCH: loads the next chunk
// while one is multiplied, for 17 registers more.
void multiply(inout vec4 s[4], Rows own, Rows other, uint width) {
    vec4 own_quads[kOwnLoads], other_quads[kOtherLoads];
    if (PREFETCH) load_chunk(own_quads, other_quads, own, other, 0, width);
    uint c = 0;
    [[dont_unroll]] do {
        if (!PREFETCH) load_chunk(own_quads, other_quads, own, other, c, width);
        [[unroll]] for (uint q = 0; q < kOwnLoads; ++q) {
            const uint e = min(q * kThreads + thread, kOwn * kChunkQuads - 1);
            chunk[chunk_slot(e / kChunkQuads, kOwn) + e % kChunkQuads] = own_quads[q];
        }
        [[unroll]] for (uint q = 0; q < kOtherLoads; ++q) {
            const uint e = min(q * kThreads + thread, kOther * kChunkQuads - 1);
            chunk[kOwn * kChunkStride + chunk_slot(e / kChunkQuads, kOther) + e % kChunkQuads] = other_quads[q];
        }
        barrier();
        c += CHUNK;
        if (PREFETCH && c < width) load_chunk(own_quads, other_quads, own, other, c, width);
        EACH(quad, kChunkQuads, {
            vec4 x[4];
            [[unroll]] for (uint i = 0; i < 4; ++i) x[i] = chunk[(i * DOWN + down) * kChunkStride + quad];
            [[unroll]] for (uint j = 0; j < 4; ++j) {
                const vec4 y = chunk[(kOwn + j * ACROSS + across) * kChunkStride + quad];
                [[unroll]] for (uint i = 0; i < 4; ++i)
                    s[j][i] = fma(x[i].w, y.w, fma(x[i].z, y.z, fma(x[i].y, y.y, fma(x[i].x, y.x, s[j][i]))));
            }
        })
        barrier();
    } while (c < width);
}

// Returns column j of s.
vec4 slice_of(vec4 s[4], uint j) {
    const vec4 even = j < 2 ? s[0] : s[2];
    const vec4 odd = j < 2 ? s[1] : s[3];
    return j % 2 == 0 ? even : odd;
}

// Returns those of the four own rows that a thread sums, of quad `row_quad` of the own rows: all, or two.
vec4 rows_of_thread(vec4 x, uint columns) {
    return columns == ACROSS || thread / columns % 2 == 0 ? x : x.zwzw;
}
uint row_quad(uint columns) { return columns == ACROSS ? down : thread / columns / 2; }

// Sums of one product: quad n of row i is sums[n * rows + i]. A macro, because sizes of arrays are constants.
#define MULTIPLY_SUMS(sums, columns, rows, parts, factors)                                                             \
    [[unroll]] for (uint hekla_n = 0; hekla_n < (parts); ++hekla_n)                                                    \
        [[unroll]] for (uint hekla_i = 0; hekla_i < (rows); ++hekla_i) sums[hekla_n * (rows) + hekla_i] *= (factors)[hekla_i];

// Stores sums * factor to the rows of `to`.
#define STORE_SUMS(sums, width, columns, rows, parts, to, factors)                                                     \
    [[unroll]] for (uint hekla_n = 0; hekla_n < (parts); ++hekla_n)                                                    \
        [[unroll]] for (uint hekla_i = 0; hekla_i < (rows); ++hekla_i) {                                               \
            const uint hekla_row = thread / (columns) * (rows) + hekla_i;                                                   \
            store_quad(to, min(hekla_row, (to).last) * (to).stride, (hekla_n * (columns) + thread % (columns)) * 4, width,  \
                       hekla_row <= (to).last, sums[hekla_n * (rows) + hekla_i] * (factors)[hekla_i]);                 \
        }

// Adds s x to sums, where `slice` is an expression for column hekla_slice of s. `chunk` and `tile` must be free, and are
// afterwards.
#define LOAD_SLICE(x, width, columns, parts, take, from)                                                               \
    [[unroll]] for (uint hekla_q = 0; hekla_q < ((take) * (columns) * (parts) + kThreads - 1) / kThreads; ++hekla_q) { \
        const uint hekla_e = min(hekla_q * kThreads + thread, (take) * (columns) * (parts) - 1);                            \
        const uint hekla_row = ((from) % kSlice + hekla_e / ((columns) * (parts))) * 4 + (from) / kSlice;              \
        x[hekla_q] = load_quad(hekla_x, min(hekla_row, hekla_x.last) * hekla_x.stride,                                 \
                               hekla_e % ((columns) * (parts)) * 4, width);                                            \
    }
#define APPLY(sums, width, columns, rows, parts, take, slice, x)                                                       \
    {                                                                                                                  \
        const Rows hekla_x = x;                                                                                        \
        vec4 hekla_next[((take) * (columns) * (parts) + kThreads - 1) / kThreads];                                     \
        LOAD_SLICE(hekla_next, width, columns, parts, take, 0u)                                                        \
        uint hekla_from = 0; /* slice * kSlice + row of the slice */                                                   \
        [[dont_unroll]] do {                                                                                           \
            const uint hekla_slice = hekla_from / kSlice;                                                              \
            if (hekla_from % kSlice == 0) tile[across * kTileStride + down] = slice;                                   \
            [[unroll]] for (uint hekla_q = 0; hekla_q < ((take) * (columns) * (parts) + kThreads - 1) / kThreads;      \
                            ++hekla_q)                                                                                 \
                chunk[min(hekla_q * kThreads + thread, (take) * (columns) * (parts) - 1)] = hekla_next[hekla_q];            \
            barrier();                                                                                                 \
            const uint hekla_row = hekla_from % kSlice;                                                                \
            hekla_from += (take);                                                                                      \
            if (hekla_from < 4 * kSlice) LOAD_SLICE(hekla_next, width, columns, parts, take, hekla_from)               \
            EACH(hekla_k, take, {                                                                                      \
                const vec4 hekla_p =                                                                                   \
                    rows_of_thread(tile[(hekla_row + hekla_k) * kTileStride + row_quad(columns)], columns);            \
                [[unroll]] for (uint hekla_n = 0; hekla_n < (parts); ++hekla_n) {                                      \
                    const vec4 hekla_y = chunk[hekla_k * (columns) * (parts) + hekla_n * (columns) + thread % (columns)];   \
                    [[unroll]] for (uint hekla_i = 0; hekla_i < (rows); ++hekla_i)                                     \
                        sums[hekla_n * (rows) + hekla_i] =                                                             \
                            fma(vec4(hekla_p[hekla_i]), hekla_y, sums[hekla_n * (rows) + hekla_i]);                    \
                }                                                                                                      \
            })                                                                                                         \
            barrier();                                                                                                 \
        } while (hekla_from < 4 * kSlice);                                                                             \
    }

// Returns the sum, or the maximum, of x over the threads across, in order. `tile` must be free, and is afterwards.
vec4 sum_across(vec4 x) {
    tile[across * kTileStride + down] = x;
    barrier();
    vec4 y = vec4(0.0);
    EACH(a, ACROSS, { y += tile[a * kTileStride + down]; })
    barrier();
    return y;
}
vec4 max_across(vec4 x) {
    tile[across * kTileStride + down] = x;
    barrier();
    vec4 y = tile[down];
    EACH(a, ACROSS, { y = max(y, tile[a * kTileStride + down]); })
    barrier();
    return y;
}
