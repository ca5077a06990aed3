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
    HK_ADDRESS(after); // [B, T, H]
    HK_ADDRESS(lengths);
    HK_ADDRESS(initial);
    HK_ADDRESS(y); // [B, T, H]
    HK_U32(time);
    HK_U32(hidden);
};

HK_RECORD(ForwardRecord) {
    HK_RECORD_HEAD;
    HK_ADDRESS(inputs); // [B, T, gates H]
    HK_ADDRESS(weight); // [H, gates H]: transposed, so that the lanes' units are contiguous
    HK_ADDRESS(bias);   // [gates H]
    HK_ADDRESS(lengths);
    HK_ADDRESS(initial);
    HK_ADDRESS(initial_cell);
    HK_ADDRESS(y);
    HK_ADDRESS(last);
    HK_ADDRESS(last_cell);
    HK_ADDRESS(cells);
    HK_U32(time);
    HK_U32(hidden);
    HK_U32(batch);
};

HK_RECORD(GradientRecord) {
    HK_RECORD_HEAD;
    HK_ADDRESS(dy);
    HK_ADDRESS(dlast);
    HK_ADDRESS(dlast_cell);
    HK_ADDRESS(inputs);       // [B, T, gates H]: projection of the inputs, bias included
    HK_ADDRESS(hiddens);      // [B, T, gates H]: projection of the states, bias included
    HK_ADDRESS(before);       // [B, T, H]: states before every token
    HK_ADDRESS(before_cells);
    HK_ADDRESS(cells);        // [B, T, H]: after it
    HK_ADDRESS(weight);       // [gates H, H]
    HK_ADDRESS(lengths);
    HK_ADDRESS(dinputs);      // [B, T, gates H]
    HK_ADDRESS(dhiddens);     // [B, T, gates H]; of an LSTM the same tensor as dinputs
    HK_ADDRESS(dinitial);     // [B, H]
    HK_ADDRESS(dinitial_cell);
    HK_U32(time);
    HK_U32(hidden);
    HK_U32(batch);
};
