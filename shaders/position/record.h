// Argument records of the kernels in shaders/position, named after them.
HK_RECORD(RotaryRecord) {
    HK_RECORD_HEAD;
    HK_READS(x);
    HK_READS(cosine); // [rows, half]
    HK_READS(sine);
    HK_READS(positions); // [B, T], with POSITIONS
    HK_WRITES(y);        // dense
    HK_U32(count);
    HK_U32(heads);
    HK_U32(tokens);
    HK_U32(width);
    HK_U32(half_turned);
    HK_U32(rows);
    HK_I32_ARRAY(x_strides, 4);
};
