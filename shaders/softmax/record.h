// Argument records of the kernels in shaders/softmax, named after them.
HK_RECORD(ForwardRecord) {
    HK_RECORD_HEAD;
    HK_READS(x);
    HK_WRITES(y);
    HK_U32(rows);
    HK_U32(width);
    HK_U32(stride);
};

HK_RECORD(GradientRecord) {
    HK_RECORD_HEAD;
    HK_READS(dy);
    HK_READS(y);
    HK_WRITES(dx);
    HK_U32(rows);
    HK_U32(width);
    HK_U32(dy_stride);
    HK_U32(y_stride);
};
