// Shared by the kernels in shaders/matmul and their lowering: constants and argument records.

// Bits of the specialization constant EPILOGUE: operations on a sum before it is stored, in this order.
HK_CONSTANT(kBias, 1);
HK_CONSTANT(kActivationShift, 5); // the activation is EPILOGUE >> kActivationShift
HK_CONSTANT(kActivationNone, 0);
HK_CONSTANT(kActivationRelu, 1);
HK_CONSTANT(kActivationGeluTanh, 2);
HK_CONSTANT(kActivationGelu, 3);
HK_CONSTANT(kActivationGeluTanhGradient, 4); // of an argument in `other`
HK_CONSTANT(kActivationGeluGradient, 5);
HK_CONSTANT(kResidual, 2);
HK_CONSTANT(kAccumulate, 4); // added to C
HK_CONSTANT(kStoreBefore, 8);      // the sum before the activation is also stored, in `other`
HK_CONSTANT(kStoreActivation, 16); // with an activation's gradient: the activation of the argument is stored in `again`

// Bits of the specialization constant VECTORS: what can be read (C also written) in aligned vectors of four elements.
HK_CONSTANT(kVectorsOfA, 1);
HK_CONSTANT(kVectorsOfB, 2);
HK_CONSTANT(kVectorsOfC, 4); // with the bias and the residual
HK_CONSTANT(kWholeK, 8);     // K is a multiple of four
HK_CONSTANT(kEightsOfA, 16); // rows, as stored, are aligned to eight elements and multiples of eight long
HK_CONSTANT(kEightsOfB, 32);

// The specialization constant SUMS of the kernels with tiles in shared memory: whether they also add the rows of a factor, which
// is stored [K, M] or [K, N].
HK_CONSTANT(kSumsOfA, 1);
HK_CONSTANT(kSumsOfB, 2);

// The specialization constant GROUPED: what `groups` contains for a batch, in products of rows that choose a matrix (row_linear).
HK_CONSTANT(kChosenB, 1);   // the matrix of B, or -1: none, and C is of no use
HK_CONSTANT(kRangesOfK, 2); // where its range of K begins; the next begins where it ends

// The record of all kernels that multiply, and of split_sum.
HK_RECORD(Record) {
    HK_RECORD_HEAD;
    HK_READS(a);
    HK_READS(b);
    HK_UPDATES(c);             // read with kAccumulate
    HK_READS(bias);            // [N], with kBias
    HK_READS(residual);        // [M, N] with its own row stride, one for all batches, with kResidual
    HK_READS_OR_WRITES(other); // like C; without batches; written with kStoreBefore
    HK_WRITES(again);          // like C; without batches
    HK_WRITES(sums);           // [splits, M] or [splits, N], with SUMS; without batches
    HK_READS(groups);          // int32 [batches], or [batches + 1], with GROUPED
    HK_U32(m);
    HK_U32(n);
    HK_U32(k);
    HK_U32(lda); // elements between rows as stored
    HK_U32(ldb);
    HK_U32(ldp); // elements between panels of a packed B
    HK_U32(ldc);
    HK_U32(ldr);
    HK_U32(batch_inner); // batches are outer * batch_inner + inner
    HK_U32(a_outer);     // elements between batches; 0 repeats
    HK_U32(a_inner);
    HK_U32(b_outer);
    HK_U32(b_inner);
    HK_U32(c_outer);
    HK_U32(c_inner);
    HK_U32(tiles_m);
    HK_U32(tiles_n);
    HK_U32(splits);  // of K, one workgroup per tile each; above 1 C is [splits, batches, M, N] of partial sums
    HK_U32(k_split); // the length of a split
    HK_U32(batches);
};

// Rows of B [K, N] that a group of pack copies.
HK_CONSTANT(kRowsPacked, 4);

HK_RECORD(PackRecord) {
    HK_RECORD_HEAD;
    HK_READS(from);
    HK_WRITES(to);
    HK_U32(n);
    HK_U32(k);
    HK_U32(ld);     // elements between rows of `from`, as stored
    HK_U32(panels); // of a batch
    HK_U32(batch_inner);
    HK_U32(outer); // elements between batches of `from`
    HK_U32(inner);
};
