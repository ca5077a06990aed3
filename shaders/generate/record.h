// Shared by the kernels in shaders/generate, their lowering and the sampler: constants, argument records, and buffers that
// the host writes.

HK_CONSTANT(kListedIds, 128); // in ChooseOptions
HK_CONSTANT(kChosenSlots, 64); // latest tokens of a row that the host can read
HK_I32_CONSTANT(kNotFinite, -1);       // in place of a token: a score is NaN or infinite
HK_I32_CONSTANT(kNoTokenAllowed, -2);

// The probability of a token in units of that of the most likely one / 2^31, as an integer: draws then give the same
// tokens in any order of summation, on every device. 2^-f for 0 <= f < 1 is
// (kShare0 - f (kShare1 - f (kShare2 - ...))) / 2^31, within 3e-9.
HK_CONSTANT(kShare0, 2147483648u);
HK_CONSTANT(kShare1, 1488522236u);
HK_CONSTANT(kShare2, 515882469u);
HK_CONSTANT(kShare3, 119193747u);
HK_CONSTANT(kShare4, 20652244u);
HK_CONSTANT(kShare5, 2856024u);
HK_CONSTANT(kShare6, 319744u);
HK_CONSTANT(kShare7, 24275u);
HK_F32_CONSTANT(kHalvings, 1.44269504f); // per unit of a score
HK_F32_CONSTANT(kWholeRange, 64.0f);     // of scores: a token that is further below the highest has a share of 0

// Like generate::Options.
HK_BUFFER(ChooseOptions) {
    HK_U32(on);    // 0: tokens are chosen by the host; nothing is read or written
    HK_U32(draws); // 0: the most likely token
    HK_F32(inverse_temperature);
    HK_U32(top_k);         // 0: all
    HK_U32(dropped_share); // 1 - top_p, in 2^-32; 0: none
    HK_F32(kept_range);    // of scores below the highest: -log(min_p), at most kWholeRange, which is without min_p
    HK_U32(seed_low);
    HK_U32(seed_high);
    HK_U32(first_row_low); // added to the number of a row in draws
    HK_U32(first_row_high);
    HK_U32(ends); // number of end tokens, the first in `ids`
    HK_U32(suppressed); // after them
    HK_U32(forced);     // after these: the only tokens allowed as a row's last
    HK_U32(biased);     // after these: the tokens of `biases`
    HK_I32_ARRAY(ids, 128);
    HK_I32_ARRAY(biases, 128); // the bits of floats that are added to the scores of these tokens
};

// A row whose tokens are chosen here.
HK_BUFFER(ChooseRow) {
    HK_U32(left);     // tokens that it may still get; 0: it has ended
    HK_U32(required); // tokens before an end token is allowed
    HK_U32(position); // of the next token in the row's text, for draws
    HK_U32(slot);     // of the next token in `chosen`
};

HK_RECORD(ChooseRecord) {
    HK_RECORD_HEAD;
    HK_UPDATES(logits); // [rows, stride]; gets the biases, and -infinity for forbidden tokens
    HK_READS(options);  // ChooseOptions
    HK_UPDATES(rows);   // ChooseRow [rows]
    HK_WRITES(tokens);  // [rows], read by the next replay, as are:
    HK_UPDATES(start);  // [rows]
    HK_WRITES(count);   // [rows]: 0 for a row that has ended
    HK_WRITES(chosen);  // [rows, kChosenSlots]
    HK_U32(width);
    HK_U32(stride);
};
