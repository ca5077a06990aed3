// The optimizers of all parameters of a store: global norm, the check for non-finite values, clipping and the update.
// AdamW and SGD are one program of one kernel for all parameters; other optimizers are graphs (update_program.hpp) that
// a second program computes. Counters and bias corrections are on the device and are saved with the run.
#pragma once

#include "program/lowering/optimizer.hpp"
#include "program/parameter_store.hpp"
#include "train/recipe/recipe.hpp"
#include "train/update/step_outcome.hpp"

#include <functional>
#include <map>
#include <span>
#include <utility>

namespace hekla::program {
class Estimator;
class Program;
class Runtime;
} // namespace hekla::program

namespace hekla::train {

struct PlannedUpdate;
struct UpdateTensor;
class WeightMask;

// Returns the CompileOptions::precision of a run with these settings.
program::Storage storage_of(const TrainSection& settings);
program::Storage frozen_storage_of(const TrainSection& settings); // train.frozen_dtype

// The state of the store that holds the step's loss: the training program writes its output "loss" there.
inline constexpr const char* kLossState = "train.loss";

// The tensors of moments in a checkpoint: prefixes of the parameters' names.
inline constexpr std::pair<const char*, program::StoreArena> kMoments[] = {
    {"exp_avg.", program::StoreArena::moment1}, {"exp_avg_sq.", program::StoreArena::moment2}};

// What an optimizer does with single parameters.
struct OptimizerRules {
    std::vector<std::string> no_decay{};                  // parameters without weight decay
    std::map<std::string, double, std::less<>> factors{}; // of the learning rate, by name; absent: 1
    const WeightMask* mask = nullptr;                     // weights that are pruned; must outlive create()
    std::vector<program::WrittenBuffer> buffers{};        // that a step writes
    bool nesterov = false;                                // of sgd
    std::string state = program::kOptimizerState; // counters and the decision about a step; of these parameters alone
    // Not null: parameters are updated by these graphs, not by the kernel of settings.optim. Those of parameters that
    // the loss does not reach are left out. Must outlive create().
    const std::vector<PlannedUpdate>* updates = nullptr;
};

class Optimizer {
public:
    // Creates the optimizer of the parameters named in `reached` (those that a loss reaches); the others never change,
    // not even by decay. With shards of a store of several ranks, it updates the rank's own elements. Decay applies to
    // parameters of rank 2 and more that are not in no_decay. Pruned weights, which are zero with zero moments, stay
    // zero. The store must have gradients, and moments() of these settings, or none with OptimizerRules::updates, whose
    // states begin with their initial values. unsupported: those with shards or a mask.
    static Result<std::unique_ptr<Optimizer>> create(program::Runtime& runtime, program::ParameterStore& store,
                                                     const TrainSection& settings,
                                                     const std::vector<std::string>& reached,
                                                     const OptimizerRules& rules = {});
    ~Optimizer();
    // Adds to an estimate what create() would, for the gradients that a step's program writes.
    static Status estimate(program::Estimator& estimator, const program::Lowering& step, const TrainSection& settings,
                           const OptimizerRules& rules = {});

    // Returns the factor of the loss before it is differentiated in this step; step() divides by it. 1 except in
    // float16 training.
    Result<double> loss_scale() const;

    // Applies the gradients in the store, unless their norm or the float in the state kLossState is not finite: set(),
    // a replay of programs(), in order, and outcome().
    Result<StepOutcome> step(double learning_rate);
    Status set(double learning_rate, std::size_t micro_batches = 1); // of the step, for buffers that it writes
    std::span<program::Program* const> programs() const;
    Result<StepOutcome> outcome(); // of the last replay of programs(), after waiting for it
    // Runs a step with a non-finite loss, which changes only counters, and restores those.
    Status rehearse();

    // For a store with shards, the parts of a step between which ranks exchange numbers. set() comes first.
    // Computes the sums of squares of the rank's own gradients, at their places among those of all ranks.
    Result<std::vector<float>> own_sums();
    // Decides about the step with the sums of all ranks and the loss of the whole step.
    Result<StepOutcome> decide(std::span<const float> sums, float loss);
    // The bytes of what was decided, for other ranks, which set it.
    Result<std::vector<std::byte>> decision() const;
    Status set_decision(std::span<const std::byte> decision);
    // Submits the update of the rank's own parameters.
    Status update_own();

    // The states of OptimizerRules::updates, in the store.
    std::span<const UpdateTensor> tensors() const;
    Status reset_tensors(); // to their initial values

    // Returns what the store must keep for these settings.
    static program::Moments moments(const TrainSection& settings);
    // Returns the states of the store that belong to a checkpoint of a run with these settings.
    // state: OptimizerRules::state.
    static std::vector<std::string> states(const TrainSection& settings,
                                           const std::string& state = program::kOptimizerState);

private:
    Optimizer();
    // Returns what create() lowers, for the tensors of a table.
    Result<StepOutcome> read_outcome(program::Program& from);
    static program::OptimizerPlan plan(const std::vector<program::ParameterEntry>& table, const TrainSection& settings,
                                       const std::vector<std::string>& reached, const OptimizerRules& rules);
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace hekla::train
