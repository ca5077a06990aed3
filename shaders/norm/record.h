// Argument records of the kernels in shaders/norm, named after them.
HK_RECORD(ForwardRecord) {
    HK_RECORD_HEAD;
    HK_ADDRESS(x);
    HK_ADDRESS(gain);
    HK_ADDRESS(bias);
    HK_ADDRESS(y);
    HK_ADDRESS(mean); // [rows]; not with RMS
    HK_ADDRESS(inverse); // [rows]: 1 / standard deviation
    HK_U32(rows);
    HK_U32(width);
    HK_U32(stride);
    HK_F32(epsilon);
};

// The record of gradient and full_gradient.
HK_RECORD(GradientRecord) {
    HK_RECORD_HEAD;
    HK_ADDRESS(dy);
    HK_ADDRESS(x);
    HK_ADDRESS(gain);
    HK_ADDRESS(mean);
    HK_ADDRESS(inverse);
    HK_ADDRESS(residual);
    HK_ADDRESS(dx);
    HK_ADDRESS(copy);
    HK_U32(rows);
    HK_U32(width);
    HK_U32(dy_stride);
    HK_U32(x_stride);
    HK_U32(residual_stride);
    // full_gradient only:
    HK_U32(chunk);         // rows per chunk
    HK_ADDRESS(gain_sums); // [chunks, width]
    HK_ADDRESS(bias_sums); // [chunks, width]; not with RMS
};

HK_RECORD(GainGradientRecord) {
    HK_RECORD_HEAD;
    HK_ADDRESS(dy);
    HK_ADDRESS(x);
    HK_ADDRESS(mean);
    HK_ADDRESS(inverse);
    HK_ADDRESS(gain_sums); // [chunks, width]
    HK_ADDRESS(bias_sums); // [chunks, width]; not with RMS
    HK_U32(rows);
    HK_U32(width);
    HK_U32(dy_stride);
    HK_U32(x_stride);
    HK_U32(chunk); // rows per chunk
    HK_U32(column_groups);
};
