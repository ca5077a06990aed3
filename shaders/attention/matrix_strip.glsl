// Attention by matrix units of VK_KHR_cooperative_matrix alone. A subgroup passes the scores [ROWS, OTHER] through its strip
// of shared memory, because only there it is known which element is where: a lane takes SHARE neighbors of one row, and
// writes what the second product multiplies, in 16 bits, to the same strip.

const uint kHalfStride = OTHER / 8 + 1;

// Stores own . tile, of all columns, to the strip.
#define MULTIPLY(own, tile, stride, steps)                                                                             \
    [[unroll]] for (uint hekla_j = 0; hekla_j < OTHER / MN; ++hekla_j) {                                               \
        Sums hekla_sum[kDown];                                                                                         \
        [[unroll]] for (uint hekla_i = 0; hekla_i < kDown; ++hekla_i) hekla_sum[hekla_i] = Sums(0.0);                  \
        [[unroll]] for (uint hekla_k = 0; hekla_k < (steps); ++hekla_k) {                                              \
            MatrixB hekla_b;                                                                                           \
            coopMatLoad(hekla_b, tile, hekla_j * MN * (stride) + hekla_k * (MK / 8), stride,                           \
                        gl_CooperativeMatrixLayoutColumnMajor);                                                        \
            [[unroll]] for (uint hekla_i = 0; hekla_i < kDown; ++hekla_i)                                              \
                hekla_sum[hekla_i] = coopMatMulAdd(own[hekla_i * (steps) + hekla_k], hekla_b, hekla_sum[hekla_i]);     \
        }                                                                                                              \
        [[unroll]] for (uint hekla_i = 0; hekla_i < kDown; ++hekla_i)                                                  \
            coopMatStore(hekla_sum[hekla_i], strips, strip + hekla_i * MM * kScoreStride + hekla_j * (MN / 4),         \
                         kScoreStride, gl_CooperativeMatrixLayoutRowMajor);                                            \
    }                                                                                                                  \
    wait_for_subgroup();

// Loads a lane's share of the strip; the strip is free afterwards.
#define TAKE_SHARE(x)                                                                                                  \
    [[unroll]] for (uint hekla_n = 0; hekla_n < SHARE / 4; ++hekla_n) {                                                \
        const vec4 hekla_x =                                                                                           \
            uintBitsToFloat(strips[strip + lane_row * kScoreStride + lane_column / 4 + hekla_n]);                      \
        [[unroll]] for (uint hekla_c = 0; hekla_c < 4; ++hekla_c) x[hekla_n * 4 + hekla_c] = hekla_x[hekla_c];         \
    }                                                                                                                  \
    wait_for_subgroup();

// Four elements in 16 bits.
uvec2 halves_of(vec4 x) {
#ifndef BF16
    if (has(kNativeConversion))
        return uvec2(packFloat2x16(f16vec2(x.x, x.y)), packFloat2x16(f16vec2(x.z, x.w)));
#endif
    return pack_four(kType, x);
}

// Stores a lane's share in 16 bits for ACCUMULATE.
#define GIVE_SHARE(x)                                                                                                  \
    [[unroll]] for (uint hekla_n = 0; hekla_n < SHARE / 8; ++hekla_n) {                                                \
        const uint hekla_c = hekla_n * 8;                                                                              \
        strips[strip + lane_row * kHalfStride + lane_column / 8 + hekla_n] =                                           \
            uvec4(halves_of(vec4(x[hekla_c], x[hekla_c + 1], x[hekla_c + 2], x[hekla_c + 3])),                         \
                  halves_of(vec4(x[hekla_c + 4], x[hekla_c + 5], x[hekla_c + 6], x[hekla_c + 7])));                    \
    }                                                                                                                  \
    wait_for_subgroup();

// Adds the strip times the tile to sums: matrix i * parts + j has rows i MM and columns j MN. The strip is free afterwards.
#define ACCUMULATE(sums, tile, stride, parts)                                                                          \
    [[unroll]] for (uint hekla_k = 0; hekla_k < OTHER / MK; ++hekla_k) {                                               \
        MatrixA hekla_a[kDown];                                                                                        \
        [[unroll]] for (uint hekla_i = 0; hekla_i < kDown; ++hekla_i)                                                  \
            coopMatLoad(hekla_a[hekla_i], strips, strip + hekla_i * MM * kHalfStride + hekla_k * (MK / 8),             \
                        kHalfStride, gl_CooperativeMatrixLayoutRowMajor);                                              \
        [[unroll]] for (uint hekla_j = 0; hekla_j < (parts); ++hekla_j) {                                              \
            MatrixB hekla_b;                                                                                           \
            coopMatLoad(hekla_b, tile, hekla_k * MK * (stride) + hekla_j * (MN / 8), stride,                           \
                        gl_CooperativeMatrixLayoutRowMajor);                                                           \
            [[unroll]] for (uint hekla_i = 0; hekla_i < kDown; ++hekla_i)                                              \
                sums[hekla_i * (parts) + hekla_j] =                                                                    \
                    coopMatMulAdd(hekla_a[hekla_i], hekla_b, sums[hekla_i * (parts) + hekla_j]);                       \
        }                                                                                                              \
    }                                                                                                                  \
    wait_for_subgroup();

// Passes columns `first` .. first + OTHER - 1 of sums to the strip, where a lane's share of them is then.
#define SPREAD(sums, parts, first)                                                                                     \
    [[unroll]] for (uint hekla_j = 0; hekla_j < OTHER / MN; ++hekla_j)                                                 \
        [[unroll]] for (uint hekla_i = 0; hekla_i < kDown; ++hekla_i)                                                  \
            if ((first) / MN + hekla_j < (parts))                                                                      \
                coopMatStore(sums[hekla_i * (parts) + min((first) / MN + hekla_j, (parts) - 1)], strips,               \
                             strip + hekla_i * MM * kScoreStride + hekla_j * (MN / 4), kScoreStride,                   \
                             gl_CooperativeMatrixLayoutRowMajor);                                                      \
    wait_for_subgroup();

// Stores sums * factor: a lane its share of the row at address to_row, if that is in_range.
#define STORE_SUMS(sums, parts, to_row, to_type, width, in_range, factor)                                              \
    [[unroll]] for (uint hekla_f = 0; hekla_f < (parts) * MN; hekla_f += OTHER) {                                      \
        SPREAD(sums, parts, hekla_f)                                                                                   \
        [[unroll]] for (uint hekla_n = 0; hekla_n < SHARE / 4; ++hekla_n) {                                            \
            const uint hekla_at = hekla_f + lane_column + hekla_n * 4;                                                 \
            if ((in_range) && hekla_at < (width))                                                                      \
                store_four(to_row, hekla_at, to_type,                                                                  \
                           uintBitsToFloat(strips[strip + lane_row * kScoreStride + lane_column / 4 + hekla_n]) *      \
                               (factor));                                                                              \
        }                                                                                                              \
        wait_for_subgroup();                                                                                           \
    }

// As sum_of_row().
float max_of_row(float x) {
    [[unroll]] for (uint step = ROWS; step < SUBGROUP; step *= 2) x = max(x, subgroupShuffleXor(x, step));
    return x;
}
