// What the optimizer's kernels share. All memory is float32; counters are uint words.
RECORD(Record) {
    HEKLA_RECORD
    uint64_t parameters, gradients, moment1, moment2; // flat arenas
    uint64_t blocks;  // one word for each 256 elements: the group's number, or kUntouched
    uint64_t groups;  // [groups, 2]: learning-rate factor, weight decay
    uint64_t sums;    // of squares, from optimizer/norm
    uint64_t learning_rate, gradient_scale; // floats of this step; the scale multiplies gradients before all else
    uint64_t state;   // OptimizerState: saved with the run
    uint64_t loss;    // float of this step, tested; null: none
    uint64_t loss_scale; // LossScale; null: none
    uint count;       // elements of an arena, a multiple of 256
    uint chunks;      // of sums
    float beta1, beta2, epsilon;
    float momentum;
    float max_norm; // 0: no clipping
    uint nesterov;
};
PUSH_RECORD(Record);

const uint kUntouched = 0xFFFFFFFFu;

// engine/program/lowering/optimizer.hpp has the same words.
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer OptimizerState {
    uint applied;         // updates so far
    uint skipped;         // steps whose loss or norm was not finite
    uint skipped_in_row;
    uint skip;            // this step's
    float norm;           // of the scaled gradients, before clipping
    float factor;         // what multiplies gradients in this step: scale and clipping
    float correction1;    // 1 - beta1^applied, of this update
    float correction2;    // sqrt(1 - beta2^applied)
    float power1;         // beta1^applied
    float power2;
};
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer LossScale {
    float scale; // 0: not begun
    uint steps_at_it;
};
