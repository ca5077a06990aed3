// The optimizer as three dispatches over the flat arenas of a ParameterStore: the gradient norm in parts; one group
// that checks loss and norm, decides, counts and clips; the update of every parameter (the first and the last once for
// each chunk of a store that is larger than one allocation). Compiled as a separate program:
//
//     HK_ASSIGN(Lowering lowering, lower_optimizer(plan, store->table(), store->chunks(), runtime->limits()));
//     HK_ASSIGN(auto optimizer, Program::compile(*runtime, lowering, *store));
//     optimizer->set_scalar(kLearningRate, 1e-3f);  optimizer->submit({});
//
// Pruned weights (OptimizerPlan::kept) that are zero, with zero moments, stay exactly zero: the first dispatch sets
// their gradients to zero, so that norm and clipping do not see them, and decay and update of zeros are zero.
//
// OptimizerPlan::buffers adds one dispatch each. A step whose norm (or loss) is not finite changes only counters.
//
// A rank of a training computes the norm and the update for the elements that it owns (Shards), as programs of their
// own (OptimizerStage): the sums of squares of all ranks come together in between.
#pragma once

#include "program/lowering/lowering.hpp"
#include "program/lowering/parameter_table.hpp"
#include "program/shards.hpp"

#include <span>
#include <string>
#include <vector>

namespace hekla::program {

enum class OptimizerKind : uint8_t {
    adamw, // Loshchilov and Hutter 2019, as in torch.optim.AdamW
    sgd,   // with momentum, as in torch.optim.SGD; weight decay is added to the gradient
};

// Settings of a group of parameters. The step's learning rate is multiplied by the factor.
struct OptimizerGroup {
    float learning_rate_factor = 1;
    float weight_decay = 0;
};

// A buffer of the graph that a step writes.
struct WrittenBuffer {
    std::string name;
    graph::Shape shape;
};

// Returns the name of the state to which programs add a buffer's updates (CompileOptions::state_sums).
inline std::string buffer_sum_state(std::string_view name) { return "buffer_sum." + std::string(name); }

// What a program of the optimizer computes.
enum class OptimizerStage : uint8_t {
    all,
    norm,   // sums of squares of the own elements, into kOptimizerSums
    decide, // from kOptimizerSums: norm, counters and clipping, into kOptimizerState
    update, // of the own elements, by kOptimizerState
    judge,  // norm and decision, for an update that another program computes by kOptimizerState
};

// States of an optimizer program (optimizer_state.hpp) and its step scalars.
inline const char* const kOptimizerState = "optimizer.state";
inline const char* const kLossScaleState = "optimizer.loss_scale";
inline const char* const kOptimizerSums = "optimizer.sums"; // with stages: sums of squares of all ranks, floats
inline const char* const kLearningRate = "learning_rate";   // step scalar
inline const char* const kGradientScale = "gradient_scale"; // step scalar, initially 1
inline const char* const kLoss = "loss";                    // step scalar, initially 0
inline const char* const kMicroBatchShare =
    "micro_batch_share"; // step scalar, initially 1: 1 / micro-batches; with buffers

struct OptimizerPlan {
    OptimizerKind kind = OptimizerKind::adamw;
    float beta1 = 0.9f;
    float beta2 = 0.999f;
    float epsilon = 1e-8f;
    float momentum = 0; // sgd; its buffer is moment1
    bool nesterov = false;
    float max_norm = 0;             // gradients are scaled down to this global norm; 0: never
    Storage moments = Storage::f32; // as the store has them
    bool moments_over_bus = false;  // they are in the host's memory, which costs time
    std::vector<OptimizerGroup> groups;
    // By entry of the table: the group's index, or -1: the parameter is not updated (frozen, or the loss does not reach
    // it).
    std::vector<int32_t> group_of;
    // By entry of the table: one byte per element, 0 if the weight is pruned; empty: nothing of this entry is. Without
    // any, nothing is pruned. The bytes must exist until lower_optimizer() returns.
    std::vector<std::span<const uint8_t>> kept;
    // They get the mean of what buffer_sum_state() holds, with the update.
    std::vector<WrittenBuffer> buffers;
    // Whether the loss was multiplied by the number in kLossScaleState, which kGradientScale undoes: it is halved in a
    // skipped step and doubled after kLossScaleSteps applied ones.
    bool loss_scaling = false;
    // The loss to check: a state of one float, which programs write by CompileOptions::state_outputs; empty: the step
    // scalar kLoss.
    std::string loss_state;
    std::string state = kOptimizerState; // of the store: the OptimizerState
    OptimizerStage stage = OptimizerStage::all;
    const Shards* shards =
        nullptr; // of the store; null: all elements are its own. Used until lower_optimizer() returns
};

// `table` and `chunks` are the store's. invalid_argument if the plan does not match them.
Result<Lowering> lower_optimizer(const OptimizerPlan& plan, const std::vector<ParameterEntry>& table,
                                 std::span<const StoreChunk> chunks, const Limits& limits);

} // namespace hekla::program
