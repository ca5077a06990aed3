// Shared by the kernels in shaders/optimizer and their lowering: constants and argument records.

HK_CONSTANT(kUntouched, 0xFFFFFFFFu); // in `blocks`: a parameter that is not trained
HK_CONSTANT(kBlockElements, 256);     // elements of one word of `blocks`, all of one parameter
HK_CONSTANT(kPartElements, 4096);     // elements of one sum of squares
HK_F32_CONSTANT(kFirstLossScale, 65536.0);
HK_CONSTANT(kLossScaleSteps, 2000); // applied steps after which the loss scale doubles

// The record of decide and update. All memory is float32; counters are 32-bit words.
HK_RECORD(Record) {
    HK_RECORD_HEAD;
    HK_UPDATES(parameters); // flat arenas
    HK_READS(gradients);
    HK_UPDATES(moment1);
    HK_UPDATES(moment2);
    HK_READS(blocks);          // one word per kBlockElements: the group's index, or kUntouched
    HK_READS(groups);          // [groups, 2]: learning-rate factor, weight decay
    HK_READS(sums);            // of squares, from optimizer/norm
    HK_READS(learning_rate);   // float of this step
    HK_READS(gradient_scale);  // float of this step; applied to gradients first
    HK_READS_OR_WRITES(state); // OptimizerState: saved with the run; decide writes it, update reads it
    HK_READS(loss);            // float of this step, checked; null: none
    HK_UPDATES(loss_scale);    // LossScale; null: none
    HK_U32(chunks); // number of sums
    HK_F32(beta1);
    HK_F32(beta2);
    HK_F32(epsilon);
    HK_F32(momentum);
    HK_F32(max_norm); // 0: no clipping
    HK_U32(nesterov);
    HK_U32(chunk);       // of the arenas, for random numbers
    HK_U32(first_block); // of kBlockElements: of the addresses in the chunk, for random numbers
};

HK_RECORD(NormRecord) {
    HK_RECORD_HEAD;
    HK_READS_OR_WRITES(gradients); // written where weights are pruned
    HK_WRITES(sums);
    HK_READS(pruned); // one bit per element, 1: the weight is pruned; null: none is
    HK_U32(count);    // a multiple of kBlockElements
};

HK_RECORD(BufferRecord) {
    HK_RECORD_HEAD;
    HK_READS(sum);   // of the buffer's updates over micro-batches
    HK_WRITES(to);   // the buffer
    HK_READS(state); // OptimizerState
    HK_READS(share); // float of this step: 1 / micro-batches
    HK_U32(count);
};

// The content of the state kOptimizerState. Part of a checkpoint: with the moments, it is the whole state of the
// optimizer.
HK_BUFFER(OptimizerState) {
    HK_U32(applied);             // updates so far
    HK_U32(skipped);             // steps whose loss or norm was not finite
    HK_U32(skipped_in_row);      // skipped steps since the last applied one
    HK_U32(skip);                // 1: the last step was skipped
    HK_F32(norm);                // global norm of the last step's gradients, before clipping
    HK_F32(factor);              // factor of the last step's gradients: scale and clipping
    HK_F32(correction1);         // 1 - beta1^applied
    HK_F32(sqrt_bias_correction2); // sqrt(1 - beta2^applied)
    HK_F32(power1);              // beta1^applied
    HK_F32(power2);              // beta2^applied
};

// The content of the state kLossScaleState, also part of a checkpoint: keeps small gradients in float16's range
// (Micikevicius and others 2018). A power of two, so that scaling changes no bit of a result.
HK_BUFFER(LossScale) {
    HK_F32(scale);       // 0: not set yet, kFirstLossScale
    HK_U32(steps_at_it); // consecutive applied steps at this scale
};
