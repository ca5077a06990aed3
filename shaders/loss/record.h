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

HK_RECORD(CrossEntropyChunkRecord) {
    HK_RECORD_HEAD;
    HK_ADDRESS(logits); // [rows, width], of the classes from `first` on
    HK_ADDRESS(labels);
    HK_ADDRESS(weights);
    HK_ADDRESS(total); // the sum of the weights, with SMOOTHING and WEIGHTS
    HK_ADDRESS(state); // [4, rows]: largest logit, sum of exp(logit - largest), the label's logit, weighted sum of logits
    HK_ADDRESS(loss);
    HK_ADDRESS(lse);
    HK_ADDRESS(best); // [rows]
    HK_U32(rows);
    HK_U32(width);
    HK_U32(first);
    HK_U32(classes);
    HK_I32(ignore);
    HK_F32(smoothing);
};

HK_RECORD(CrossEntropyGradientRecord) {
    HK_RECORD_HEAD;
    HK_ADDRESS(dloss);
    HK_ADDRESS(logits);
    HK_ADDRESS(labels);
    HK_ADDRESS(lse);
    HK_ADDRESS(weights);
    HK_ADDRESS(dlogits);
    HK_ADDRESS(total); // the sum of the weights, with CHUNK, SMOOTHING and WEIGHTS
    HK_U32(rows);
    HK_U32(width);
    HK_U32(stride);
    HK_I32(ignore);
    HK_F32(smoothing);
    HK_U32(dloss_stride); // 0: one for all rows
    HK_U32(first);        // with CHUNK
    HK_U32(classes);      // with CHUNK
};
