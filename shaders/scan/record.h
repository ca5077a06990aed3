// Shared by the kernels in shaders/scan and their lowering: constants and argument records, named after them.

// The specialization constant SCAN: what place i of a line gets.
HK_CONSTANT(kSum, 0);
HK_CONSTANT(kProduct, 1);
HK_CONSTANT(kMaximum, 2);
HK_CONSTANT(kLogSumExp, 3);
HK_CONSTANT(kLinear, 4);     // y[i] = x[i] + a[i] y[i - 1], and the first is x[i]
HK_CONSTANT(kLinearFrom, 5); // the same from an initial y

HK_RECORD(ScanRecord) {
    HK_RECORD_HEAD;
    HK_READS(x); // [outer, places, inner], as the others
    HK_READS(a);       // of kLinear and kLinearFrom
    HK_READS(initial); // of kLinearFrom: [outer, inner]
    HK_WRITES(y);
    HK_WRITES(indices); // of kMaximum
    HK_U32(count);      // lines: outer * inner
    HK_U32(places);
    HK_U32(inner);
};

HK_RECORD(TopKRecord) {
    HK_RECORD_HEAD;
    HK_READS(x);       // [count, width]
    HK_WRITES(values); // [count, k]
    HK_WRITES(indices);
    HK_U32(count);
    HK_U32(width);
    HK_U32(k);
};
