// Argument records of the kernels in shaders/peak.
HK_RECORD(Record) {
    HK_RECORD_HEAD;
    HK_WRITES(sums);  // float32, one for each invocation
    HK_U32(iterations);
    HK_F32(factor);
    HK_F32(addend);
};

HK_CONSTANT(kChains, 12);         // float32 sums of an invocation
HK_CONSTANT(kStepsPerIteration, 16); // of each sum
HK_CONSTANT(kMatrixChains, 4);    // matrices of sums of a subgroup
HK_CONSTANT(kMatrixSteps, 8);     // per iteration, of each of them
