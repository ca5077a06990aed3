// Values that the host writes before every replay (Lowering::runtime()).
HK_BUFFER(RuntimeRecord) {
    HK_U32(seed_low);
    HK_U32(seed_high);
    HK_U32(step);
    HK_U32(first_example); // of this micro-batch in the step
    HK_U32(accumulate);    // not 0: gradients are added to those of the earlier micro-batches
    HK_U32_ARRAY(reserved, 3);
};
