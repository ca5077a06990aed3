// Argument records of the kernels in shaders/loss, named after them.
HK_RECORD(CrossEntropyRecord) {
    HK_RECORD_HEAD;
    HK_READS(logits);
    HK_READS(labels);
    HK_READS(weights);
    HK_WRITES(loss);
    HK_WRITES(lse); // [rows, 2]: the largest logit, the logarithm of the sum of exp(logit - largest)
    HK_U32(rows);
    HK_U32(width);
    HK_U32(stride);
    HK_I32(ignore);
    HK_F32(smoothing);
};

HK_RECORD(CrossEntropyRowsRecord) {
    HK_RECORD_HEAD;
    HK_READS(logits);
    HK_READS(labels);
    HK_READS(weights);
    HK_READS(dloss);         // with GRADIENT
    HK_WRITES(dlogits);      // with GRADIENT: may be the logits
    HK_WRITES(loss);         // with LOSS
    HK_READS_OR_WRITES(lse); // as above; written if there is no GRADIENT, read if there is no LOSS
    HK_WRITES(best);         // [rows], with BEST
    HK_U32(width);
    HK_U32(stride); // elements between rows, of dlogits too: a multiple of 2, and what follows a row is not used
    HK_I32(ignore);
    HK_F32(smoothing);
    HK_U32(dloss_stride); // 0: one for all rows
    HK_F32(scale);        // with SCALED
    HK_F32(softcap);      // with SOFTCAP
};

HK_RECORD(CrossEntropyGradientRecord) {
    HK_RECORD_HEAD;
    HK_READS(dloss);
    HK_READS(logits);
    HK_READS(labels);
    HK_READS(lse);
    HK_READS(weights);
    HK_WRITES(dlogits);
    HK_U32(rows);
    HK_U32(width);
    HK_U32(stride);
    HK_I32(ignore);
    HK_F32(smoothing);
    HK_U32(dloss_stride); // 0: one for all rows
};
