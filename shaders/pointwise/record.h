// Argument records of the kernels in shaders/pointwise, named after them.
HK_RECORD(AccumulateRecord) {
    HK_RECORD_HEAD;
    HK_READS(x);
    HK_UPDATES(gradient);
    HK_READS(runtime); // RuntimeRecord
    HK_U32(count);
};

HK_RECORD(CopyRecord) {
    HK_RECORD_HEAD;
    HK_READS(from);
    HK_WRITES(to);
    HK_U32(count);
    HK_U32_ARRAY(dims, kMaxRank);
    HK_U32_ARRAY(factors, kMaxRank); // of dims, for hekla_divide
    HK_U32_ARRAY(shifts, kMaxRank);
    HK_U32(first); // the element of `from` that is copied first: with negative strides not the one at the lowest address
    HK_I32_ARRAY(from_strides, kMaxRank);
    HK_I32_ARRAY(to_strides, kMaxRank);
};

HK_RECORD(CopyRowsRecord) {
    HK_RECORD_HEAD;
    HK_READS(from);
    HK_WRITES(to);
    HK_U32(first); // as above
    HK_U32(rows);
    HK_U32(width);
    HK_U32_ARRAY(dims, 5); // outside the rows, outermost first
    HK_I32_ARRAY(from_strides, 5);
    HK_I32_ARRAY(to_strides, 5);
};

HK_RECORD(DropoutRecord) {
    HK_RECORD_HEAD;
    HK_READS(x);
    HK_WRITES(y);
    HK_READS(runtime); // RuntimeRecord
    HK_U32(count);
    HK_U32(example); // elements per example
    HK_U32(stream);
    HK_U32(threshold);
    HK_F32(factor);
    HK_U32_ARRAY(dims, kMaxRank);
    HK_U32_ARRAY(factors, kMaxRank); // of dims, for hekla_divide
    HK_U32_ARRAY(shifts, kMaxRank);
    HK_I32_ARRAY(strides, kMaxRank);
};

HK_CONSTANT(kTensorsAtOnce, 16);
HK_RECORD(To16BitRecord) {
    HK_RECORD_HEAD;
    HK_READS_ARRAY(from, kTensorsAtOnce);
    HK_WRITES_ARRAY(to, kTensorsAtOnce);
    HK_U32_ARRAY(words, kTensorsAtOnce); // pairs of elements
    HK_U32_ARRAY(ends, kTensorsAtOnce);  // workgroups of this tensor and those before it
};

HK_RECORD(PadRecord) {
    HK_RECORD_HEAD;
    HK_READS(x); // dense
    HK_WRITES(y);
    HK_U32(count);
    HK_U32(places);
    HK_U32(inner);
    HK_U32(parts);
    HK_U32(start);
    HK_U32(stride);
    HK_U32(value);        // as bits
    HK_U32(inner_factor); // for hekla_divide
    HK_U32(inner_shift);
    HK_U32(places_factor);
    HK_U32(places_shift);
    HK_U32(stride_factor);
    HK_U32(stride_shift);
};

// The specialization constant KIND of random.comp.
HK_CONSTANT(kUniform, 0);
HK_CONSTANT(kNormal, 1);
HK_CONSTANT(kTruncatedNormal, 2);

HK_RECORD(RandomRecord) {
    HK_RECORD_HEAD;
    HK_WRITES(y);
    HK_READS(runtime); // RuntimeRecord
    HK_U32(count);
    HK_U32(example); // elements per example
    HK_U32(stream);
    HK_F32(low); // with kTruncatedNormal, as the following
    HK_F32(high);
    HK_F32(below); // probabilities of a normal number: less than low, in between, above high
    HK_F32(inside);
    HK_F32(above);
    HK_F32(middle); // 0.5 - below
};

HK_RECORD(SingleRecord) {
    HK_RECORD_HEAD;
    HK_READS(a);
    HK_READS(b);
    HK_READS(c);
    HK_WRITES(y);
    HK_U32(count);
    HK_F32(p); // numeric arguments of the operation (clamp's bounds)
    HK_F32(q);
    HK_U32_ARRAY(dims, kMaxRank);
    HK_U32_ARRAY(factors, kMaxRank); // of dims, for hekla_divide
    HK_U32_ARRAY(shifts, kMaxRank);
    HK_I32_ARRAY(a_strides, kMaxRank); // with RANK 0: [0] is 1 or 0
    HK_I32_ARRAY(b_strides, kMaxRank);
    HK_I32_ARRAY(c_strides, kMaxRank);
};
