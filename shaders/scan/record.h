// Argument records of the kernels in shaders/scan, named after them.
HK_RECORD(CumsumRecord) {
    HK_RECORD_HEAD;
    HK_ADDRESS(x);
    HK_ADDRESS(y);
    HK_U32(count); // lines: outer * inner
    HK_U32(places);
    HK_U32(inner);
};

HK_RECORD(TopKRecord) {
    HK_RECORD_HEAD;
    HK_ADDRESS(x);      // [count, width]
    HK_ADDRESS(values); // [count, k]
    HK_ADDRESS(indices);
    HK_U32(count);
    HK_U32(width);
    HK_U32(k);
};
