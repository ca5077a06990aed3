// Shared by the kernels in shaders/row_linear and their lowering: constants and argument records, named after them.

// The specialization constant LAYOUT: how the lanes share a matrix.
HK_CONSTANT(kAlongInputs, 0);   // [out, in], many inputs: a share of each row, whose sums are added
HK_CONSTANT(kAcrossOutputs, 1); // [out, in], few inputs: rows of their own
HK_CONSTANT(kInputFirst, 2);    // [in, out]: columns of their own

// Outputs of a workgroup: the number itself, or times its lanes.
HK_CONSTANT(kOutputsAlong, 8);
HK_CONSTANT(kOutputsAcross, 4);

HK_RECORD(FewRecord) {
    HK_RECORD_HEAD;
    HK_READS(x); // [rows, tokens, in]
    HK_READS(weights);
    HK_READS(choice); // [rows]
    HK_WRITES(y);     // [rows, tokens, out]
    HK_U32(tokens);
    HK_U32(in_);
    HK_U32(out_);
    HK_U32(x_stride); // elements between tokens
    HK_U32(matrices);
    HK_U32(blocks); // workgroups per token
};

HK_RECORD(PickRecord) {
    HK_RECORD_HEAD;
    HK_READS(from);   // [count, size]
    HK_READS(choice); // [rows]
    HK_WRITES(to);    // [rows, size]
    HK_U32(size);
    HK_U32(count);
    HK_U32(blocks); // workgroups per row
    HK_U32(block);  // elements of a workgroup
};

HK_RECORD(CountRecord) {
    HK_RECORD_HEAD;
    HK_READS(choice);  // [rows]
    HK_WRITES(counts); // [matrices]
    HK_U32(rows);
};

HK_RECORD(PlaceRecord) {
    HK_RECORD_HEAD;
    HK_READS(choice);          // [rows]
    HK_READS(counts);          // [matrices]
    HK_WRITES(row_of_slot);    // [tiles * height], -1: none
    HK_WRITES(slot_of_row);    // [rows], -1: none
    HK_WRITES(matrix_of_tile); // [tiles], -1: none
    HK_WRITES(first_slot);     // [matrices + 1]
    HK_U32(rows);
    HK_U32(matrices);
    HK_U32(tiles);
    HK_U32(height); // slots of a tile
};
