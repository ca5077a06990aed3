// Argument records of the kernels in shaders/norm, named after them.
HK_RECORD(ForwardRecord) {
    HK_RECORD_HEAD;
    HK_READS(x);
    HK_READS(gain);
    HK_READS(bias);
    HK_WRITES(y);
    HK_WRITES(mean); // [rows]; not with RMS
    HK_WRITES(inverse); // [rows]: 1 / standard deviation
    HK_U32(rows);
    HK_U32(width);
    HK_U32(stride);
    HK_F32(epsilon);
};

// The record of gradient and full_gradient.
HK_RECORD(GradientRecord) {
    HK_RECORD_HEAD;
    HK_READS(dy);
    HK_READS(x);
    HK_READS(gain);
    HK_READS(mean);
    HK_READS(inverse);
    HK_READS(residual);
    HK_WRITES(dx);
    HK_WRITES(copy);
    HK_U32(rows);
    HK_U32(width);
    HK_U32(dy_stride);
    HK_U32(x_stride);
    HK_U32(residual_stride);
    // full_gradient only:
    HK_U32(chunk);        // rows per chunk
    HK_WRITES(gain_sums); // [chunks, width]
    HK_WRITES(bias_sums); // [chunks, width]; not with RMS
};

HK_RECORD(GainGradientRecord) {
    HK_RECORD_HEAD;
    HK_READS(dy);
    HK_READS(x);
    HK_READS(mean);
    HK_READS(inverse);
    HK_WRITES(gain_sums); // [chunks, width]
    HK_WRITES(bias_sums); // [chunks, width]; not with RMS
    HK_U32(rows);
    HK_U32(width);
    HK_U32(dy_stride);
    HK_U32(x_stride);
    HK_U32(chunk); // rows per chunk
    HK_U32(column_groups);
};
