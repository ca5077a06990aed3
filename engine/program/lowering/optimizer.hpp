// The optimizer as three dispatches over the flat arenas of a ParameterStore: the gradient norm in parts; one group
// that tests loss and norm, decides, counts and clips; the update of every parameter (the first and the last once for
// each chunk of a store that is larger than one allocation). A program of its own:
//
//     HK_ASSIGN(Lowering lowering, lower_optimizer(plan, store->table(), store->chunks(), runtime->limits()));
//     HK_ASSIGN(auto optimizer, Program::compile(*runtime, lowering, *store));
//     optimizer->set_scalar(kLearningRate, 1e-3f);  optimizer->submit({});
//
// A step whose norm (or loss) is not finite changes nothing but the counters of OptimizerState.
#pragma once

#include "program/program.hpp"

#include <string>
#include <vector>

namespace hekla::program {

enum class OptimizerKind : uint8_t {
    adamw, // Loshchilov and Hutter 2019, as torch.optim.AdamW computes it
    sgd,   // with momentum, as torch.optim.SGD; weight decay is added to the gradient
};

// What parameters share. The step's learning rate is multiplied by the factor.
struct OptimizerGroup {
    float learning_rate_factor = 1;
    float weight_decay = 0;
};

struct OptimizerPlan {
    OptimizerKind kind = OptimizerKind::adamw;
    float beta1 = 0.9f;
    float beta2 = 0.999f;
    float epsilon = 1e-8f;
    float momentum = 0; // sgd; its buffer is moment1
    bool nesterov = false;
    float max_norm = 0; // gradients are scaled down to this global norm; 0: never
    std::vector<OptimizerGroup> groups;
    // By entry of the table: which group, or -1: the parameter is left untouched (frozen, or the loss does not reach
    // it).
    std::vector<int32_t> group_of;
    // The loss that gradients come from was multiplied by the number in kLossScaleState, and kGradientScale undoes it:
    // it is halved in a step that is skipped and doubled after kLossScaleSteps that were not.
    bool loss_scaling = false;
    // Whose loss is tested too: a state of one float, which programs write by CompileOptions::state_outputs; empty: the
    // step scalar kLoss.
    std::string loss_state;
};

// The content of the state kOptimizerState; part of a checkpoint (with the moments it is all the optimizer has).
struct OptimizerState {
    uint32_t applied = 0;        // updates so far
    uint32_t skipped = 0;        // steps whose loss or norm was not finite
    uint32_t skipped_in_row = 0; // the last of them without one that was applied
    uint32_t skip = 0;           // 1: the last step was skipped
    float norm = 0;              // the last step's global norm, before clipping
    float factor = 0;            // what multiplied its gradients
    float correction1 = 0;
    float correction2 = 0;
    float power1 = 0; // beta1^applied
    float power2 = 0;
};

// The content of the state kLossScaleState, part of a checkpoint too: what keeps small gradients inside float16
// (Micikevicius and others 2018). Powers of two, so that scaling changes no bit that is kept.
struct LossScale {
    float scale = 0;          // 0: not begun, kFirstLossScale
    uint32_t steps_at_it = 0; // applied in a row
};
inline constexpr float kFirstLossScale = 65536;
inline constexpr uint32_t kLossScaleSteps = 2000; // shaders/optimizer/decide.comp has both

inline const char* const kOptimizerState = "optimizer.state";
inline const char* const kLossScaleState = "optimizer.loss_scale";
inline const char* const kLearningRate = "learning_rate";   // step scalar
inline const char* const kGradientScale = "gradient_scale"; // step scalar, initially 1
inline const char* const kLoss = "loss";                    // step scalar, initially 0

// Table and chunks: the store's. invalid_argument where the plan does not fit them.
Result<Lowering> lower_optimizer(const OptimizerPlan& plan, const std::vector<ParameterEntry>& table,
                                 std::span<const StoreChunk> chunks, const Limits& limits);

} // namespace hekla::program
