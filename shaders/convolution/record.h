// Shared by the kernels in shaders/convolution and their lowering. Windows are of x [B, H, W, C] (dense); arrays of two are
// along H and W.
HK_RECORD(WindowsRecord) {
    HK_RECORD_HEAD;
    HK_READS(from);
    HK_READS_OR_WRITES(places); // of max_pool2d: the window's element that is the largest, or -1; its gradient reads it
    HK_WRITES(to);
    HK_U32(count);           // invocations: elements of `to`, or vectors of four; of patches by the window
    HK_U32_ARRAY(size, 2);   // H and W of x
    HK_U32_ARRAY(windows, 2);
    HK_U32_ARRAY(kernel, 2);
    HK_U32_ARRAY(stride, 2);
    HK_U32_ARRAY(padding, 2);
    HK_U32_ARRAY(dilation, 2);
    HK_U32(groups);   // of channels
    HK_U32(channels); // of a group, or vectors of four
    HK_U32(elements); // of a window that a mean divides by; 0: those inside of x
    HK_U32_ARRAY(dims, kMaxRank); // of the invocations, without the batch
    HK_U32_ARRAY(factors, kMaxRank); // of dims, for hekla_divide
    HK_U32_ARRAY(shifts, kMaxRank);
    HK_U32_ARRAY(stride_factors, 2);
    HK_U32_ARRAY(stride_shifts, 2);
};
