// Shared by the kernels in shaders/recurrent and their lowering: constants and argument records.

// Bits of the specialization constant FLAGS: the layer, and which tensors exist.
HK_CONSTANT(kLstm, 1);
HK_CONSTANT(kReverse, 2);
HK_CONSTANT(kLengths, 4);
HK_CONSTANT(kInitial, 8);
HK_CONSTANT(kInitialCell, 16);
HK_CONSTANT(kDy, 32);
HK_CONSTANT(kDlast, 64);
HK_CONSTANT(kDlastCell, 128);

HK_RECORD(BeforeRecord) {
    HK_RECORD_HEAD;
    HK_READS(after); // [B, T, H]
    HK_READS(lengths);
    HK_READS(initial);
    HK_WRITES(y); // [B, T, H]
    HK_U32(time);
    HK_U32(hidden);
};

HK_RECORD(ForwardRecord) {
    HK_RECORD_HEAD;
    HK_READS(inputs); // [B, T, gates H]
    HK_READS(weight); // [H, gates H]: transposed, so that the lanes' units are contiguous
    HK_READS(bias);   // [gates H]
    HK_READS(lengths);
    HK_READS(initial);
    HK_READS(initial_cell);
    HK_UPDATES(y);
    HK_WRITES(last);
    HK_WRITES(last_cell);
    HK_UPDATES(cells);
    HK_U32(time);
    HK_U32(hidden);
    HK_U32(batch);
};

HK_RECORD(GradientRecord) {
    HK_RECORD_HEAD;
    HK_READS(dy);
    HK_READS(dlast);
    HK_READS(dlast_cell);
    HK_READS(inputs);  // [B, T, gates H]: projection of the inputs, bias included
    HK_READS(hiddens); // [B, T, gates H]: projection of the states, bias included
    HK_READS(before);  // [B, T, H]: states before every token
    HK_READS(before_cells);
    HK_READS(cells);  // [B, T, H]: after it
    HK_READS(weight); // [gates H, H]
    HK_READS(lengths);
    HK_WRITES(dinputs);   // [B, T, gates H]
    HK_UPDATES(dhiddens); // [B, T, gates H]; of an LSTM the same tensor as dinputs
    HK_UPDATES(dinitial); // [B, H]
    HK_UPDATES(dinitial_cell);
    HK_U32(time);
    HK_U32(hidden);
    HK_U32(batch);
};
