// Argument records of the kernels in shaders/loss, named after them.
HK_RECORD(CrossEntropyRecord) {
    HK_RECORD_HEAD;
    HK_ADDRESS(logits);
    HK_ADDRESS(labels);
    HK_ADDRESS(weights);
    HK_ADDRESS(loss);
    HK_ADDRESS(lse); // [rows, 2]: the largest logit, the logarithm of the sum of exp(logit - largest)
    HK_U32(rows);
    HK_U32(width);
    HK_U32(stride);
    HK_I32(ignore);
    HK_F32(smoothing);
};

HK_RECORD(CrossEntropyRowsRecord) {
    HK_RECORD_HEAD;
    HK_ADDRESS(logits);
    HK_ADDRESS(labels);
    HK_ADDRESS(weights);
    HK_ADDRESS(dloss);   // with GRADIENT
    HK_ADDRESS(dlogits); // with GRADIENT: may be the logits
    HK_ADDRESS(loss);    // with LOSS
    HK_ADDRESS(lse);     // as above; written if there is no GRADIENT, read if there is no LOSS
    HK_ADDRESS(best);    // [rows], with BEST
    HK_U32(width);
    HK_U32(stride); // elements between rows, of dlogits too: a multiple of 2, and what follows a row is not used
    HK_I32(ignore);
    HK_F32(smoothing);
    HK_U32(dloss_stride); // 0: one for all rows
};

HK_RECORD(CrossEntropyGradientRecord) {
    HK_RECORD_HEAD;
    HK_ADDRESS(dloss);
    HK_ADDRESS(logits);
    HK_ADDRESS(labels);
    HK_ADDRESS(lse);
    HK_ADDRESS(weights);
    HK_ADDRESS(dlogits);
    HK_U32(rows);
    HK_U32(width);
    HK_U32(stride);
    HK_I32(ignore);
    HK_F32(smoothing);
    HK_U32(dloss_stride); // 0: one for all rows
};
