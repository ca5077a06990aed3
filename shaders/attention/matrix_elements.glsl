// Attention by matrix units with VK_NV_cooperative_matrix2: a function of an element knows where that is, columns are
// reduced, and sums become factors, all in registers. Scores are [OTHER, ROWS], so that own rows are columns: on AMD a lane
// has a column of sums, which are then factors on the right as they are. shaders/TRIED.md has what the other way costs.

const uint kBlocks = OTHER / MM; // OTHER is a multiple of MM, and MM is MK

// What functions of elements read. A struct among their parameters crashes RADV of Mesa 26.2.
Record element_record;
uint element_b, element_h;
uint element_own, element_other; // the first own row and the first of the block
uint element_end;                // of the rows of the other side

// Stores in x[j * kDown + i] rows j MM of the tile times own rows i MN.
#define MULTIPLY(x, own, tile, stride, steps)                                                                          \
    [[unroll]] for (uint hekla_j = 0; hekla_j < kBlocks; ++hekla_j) {                                                  \
        [[unroll]] for (uint hekla_i = 0; hekla_i < kDown; ++hekla_i) x[hekla_j * kDown + hekla_i] = Sums(0.0);        \
        [[unroll]] for (uint hekla_k = 0; hekla_k < (steps); ++hekla_k) {                                              \
            MatrixA hekla_a;                                                                                           \
            coopMatLoad(hekla_a, tile, hekla_j * MM * (stride) + hekla_k * (MK / 8), stride,                           \
                        gl_CooperativeMatrixLayoutRowMajor);                                                           \
            [[unroll]] for (uint hekla_i = 0; hekla_i < kDown; ++hekla_i)                                              \
                x[hekla_j * kDown + hekla_i] =                                                                         \
                    coopMatMulAdd(hekla_a, own[hekla_i * (steps) + hekla_k], x[hekla_j * kDown + hekla_i]);            \
        }                                                                                                              \
    }

// Adds the transposed tile times x, in 16 bits, to sums: matrix i * parts + j has columns j MM of the tile and own rows i MN.
#define ACCUMULATE(sums, x, tile, stride, parts)                                                                       \
    [[unroll]] for (uint hekla_k = 0; hekla_k < kBlocks; ++hekla_k) {                                                  \
        MatrixB hekla_b[kDown];                                                                                        \
        [[unroll]] for (uint hekla_i = 0; hekla_i < kDown; ++hekla_i)                                                  \
            hekla_b[hekla_i] = MatrixB(x[hekla_k * kDown + hekla_i]);                                                  \
        [[unroll]] for (uint hekla_j = 0; hekla_j < (parts); ++hekla_j) {                                              \
            MatrixA hekla_a;                                                                                           \
            coopMatLoad(hekla_a, tile, hekla_k * MK * (stride) + hekla_j * (MM / 8), stride,                           \
                        gl_CooperativeMatrixLayoutColumnMajor);                                                        \
            [[unroll]] for (uint hekla_i = 0; hekla_i < kDown; ++hekla_i)                                              \
                sums[hekla_i * (parts) + hekla_j] =                                                                    \
                    coopMatMulAdd(hekla_a, hekla_b[hekla_i], sums[hekla_i * (parts) + hekla_j]);                       \
        }                                                                                                              \
    }

// Stores sums * factor by way of the strip: a lane quads of the row at address to_row, if that is in_range.
#define STORE_SUMS(sums, parts, to_row, to_type, width, in_range, factor)                                              \
    [[unroll]] for (uint hekla_j = 0; hekla_j < (parts); ++hekla_j) {                                                  \
        [[unroll]] for (uint hekla_i = 0; hekla_i < kDown; ++hekla_i)                                                  \
            coopMatStore(sums[hekla_i * (parts) + hekla_j], strips, strip + hekla_i * MN * kScoreStride, kScoreStride, \
                         gl_CooperativeMatrixLayoutColumnMajor);                                                       \
        wait_for_subgroup();                                                                                           \
        [[unroll]] for (uint hekla_n = 0; hekla_n < MM / 4; hekla_n += kLanesPerRow) {                                 \
            const uint hekla_q = hekla_n + lane / ROWS;                                                                \
            const uint hekla_at = hekla_j * MM + hekla_q * 4;                                                          \
            if ((in_range) && hekla_q < MM / 4 && hekla_at < (width))                                                  \
                store_four(to_row, hekla_at, to_type,                                                                  \
                           uintBitsToFloat(strips[strip + lane_row * kScoreStride + hekla_q]) * (factor));             \
        }                                                                                                              \
        wait_for_subgroup();                                                                                           \
    }

// Takes the number of the lane's row from matrices of which every row has the numbers of own rows.
#define TAKE_NUMBER(number, numbers)                                                                                   \
    [[unroll]] for (uint hekla_i = 0; hekla_i < kDown; ++hekla_i)                                                      \
        coopMatStore(numbers[hekla_i], strips, strip + hekla_i * MN * kScoreStride, kScoreStride,                      \
                     gl_CooperativeMatrixLayoutColumnMajor);                                                           \
    wait_for_subgroup();                                                                                               \
    number = uintBitsToFloat(strips[strip + lane_row * kScoreStride].x);                                               \
    wait_for_subgroup();

// Makes such matrices of numbers that lanes have of their rows.
float number_of(const in uint32_t down, const in uint32_t across, const in float x, const in uint32_t at) {
    return uintBitsToFloat(strips[at + across].x);
}
#define GIVE_NUMBER(numbers, number)                                                                                   \
    if (lane < ROWS) strips[strip + lane].x = floatBitsToUint(number);                                                 \
    wait_for_subgroup();                                                                                               \
    [[unroll]] for (uint hekla_i = 0; hekla_i < kDown; ++hekla_i)                                                      \
        coopMatPerElementNV(numbers[hekla_i], Sums(0.0), number_of, strip + hekla_i * MN);                             \
    wait_for_subgroup();

float larger(const in float x, const in float y) { return max(x, y); }
float total(const in float x, const in float y) { return x + y; }
float larger_element(const in uint32_t down, const in uint32_t across, const in float x, const in float y) {
    return max(x, y);
}

// What dropout keeps of a block, four bits for four keys of a query: made by all lanes of a subgroup, each for other quads.
const uint kOwnQuads = ROWS / 4;
const uint kQuads = ROWS * OTHER / 4;
shared uint kept_quads[(OPTIONS & kDropout) != 0 ? kSubgroups * kQuads : 1];
uint bits_of(vec4 kept) {
    const uvec4 bits = uvec4(greaterThan(kept, vec4(0.0)));
    return bits.x | bits.y << 1 | bits.z << 2 | bits.w << 3;
}
// Own rows are queries, whose words are neighbors, as their columns are neighboring lanes'.
void keep_of_keys(Record r, uvec4 key, uint b, uint h, uint first, uint j0) {
    [[unroll]] for (uint n = 0; n < kQuads; n += SUBGROUP) {
        const uint e = min(n + lane, kQuads - 1);
        kept_quads[subgroup * kQuads + e] =
            bits_of(keep_four(r, key, b, h, min(first + e % ROWS, r.queries - 1), j0 + e / ROWS * 4));
    }
    wait_for_subgroup();
}
float keep_of_key(uint own, uint other) {
    return (kept_quads[subgroup * kQuads + other / 4 * ROWS + own] >> other % 4 & 1u) != 0
               ? element_record.dropout_factor
               : 0.0;
}
// Own rows are keys.
void keep_of_queries(Record r, uvec4 key, uint b, uint h, uint i0, uint first) {
    [[unroll]] for (uint n = 0; n < kQuads; n += SUBGROUP) {
        const uint e = min(n + lane, kQuads - 1);
        kept_quads[subgroup * kQuads + e] =
            bits_of(keep_four(r, key, b, h, min(i0 + e / kOwnQuads, r.queries - 1), first + e % kOwnQuads * 4));
    }
    wait_for_subgroup();
}
float keep_of_query(uint own, uint other) {
    return (kept_quads[subgroup * kQuads + other * kOwnQuads + own / 4] >> own % 4 & 1u) != 0
               ? element_record.dropout_factor
               : 0.0;
}
