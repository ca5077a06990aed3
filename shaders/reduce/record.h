// Shared by the kernels in shaders/reduce and their lowering: constants and argument records.

// Values of the specialization constant REDUCTION.
HK_CONSTANT(kSum, 0);
HK_CONSTANT(kMaximum, 1);
HK_CONSTANT(kLogSumExp, 2);
HK_CONSTANT(kArgmax, 3); // the first index of the maximum

HK_RECORD(RowsRecord) {
    HK_RECORD_HEAD;
    HK_READS(x);
    HK_WRITES(y);
    HK_U32(rows);
    HK_U32(width);
    HK_U32(stride);
    HK_U32(chunk);  // elements per chunk of a row
    HK_U32(chunks); // per row; the result is [rows, chunks]
    HK_F32(factor); // of a sum
};

HK_RECORD(ColumnsRecord) {
    HK_RECORD_HEAD;
    HK_READS(x);
    HK_WRITES(y);
    HK_U32(count); // elements of the result per chunk
    HK_U32(many);  // elements reduced into one
    HK_U32(chunk); // of `many`, each in its own groups; the result is [chunks, count]
    HK_U32(groups_per_chunk);
    HK_U32_ARRAY(kept, kMaxRank); // dimensions of the result, outermost first
    HK_U32_ARRAY(kept_factors, kMaxRank); // for hekla_divide
    HK_U32_ARRAY(kept_shifts, kMaxRank);
    HK_I32_ARRAY(kept_strides, kMaxRank);
    HK_U32_ARRAY(walked, kMaxRank); // dimensions that are reduced
    HK_U32_ARRAY(walked_factors, kMaxRank);
    HK_U32_ARRAY(walked_shifts, kMaxRank);
    HK_I32_ARRAY(walked_strides, kMaxRank);
    HK_F32(factor);
};

HK_RECORD(DownRecord) {
    HK_RECORD_HEAD;
    HK_READS(x);
    HK_WRITES(y);
    HK_U32(count);
    HK_U32(rows);
    HK_U32(stride);
    HK_U32(chunk);         // rows per chunk
    HK_U32(column_groups); // of S * W columns
    HK_F32(factor);
};
