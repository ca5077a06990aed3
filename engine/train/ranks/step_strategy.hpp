// How a training takes a step: on one device (SingleDevice), divided among ranks (StepInParts), or as one of several
// islands (IslandSteps). All ranks of a training have the same kind.
//
// Functions that are marked "rank 0" tell the other ranks, which call obey() for them.
#pragma once

#include "base/resource_array.hpp"
#include "train/ranks/step_parts.hpp"
#include "train/recipe/recipe.hpp"
#include "train/step/step_runner.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hekla::program {
struct ParameterEntry;
class ParameterStore;
class Runtime;
enum class StoreArena : uint8_t;
} // namespace hekla::program

namespace hekla::train {

class Optimizers;
struct RankCommand;
struct StateFile;

// What a strategy works with; all of it outlives it.
struct StepContext {
    const Recipe& recipe;
    const graph::Graph& described; // a step before it is differentiated
    program::Runtime& runtime;
    program::ParameterStore& store;
    Optimizers& optimizers;
    exchange::Communicator& ranks;
    std::function<void(const std::string&)> message;
};

class StepStrategy {
public:
    virtual ~StepStrategy() = default;

    // Lets the other ranks take the step, before it is prepared here; they call it too, and it does nothing there.
    Status announce(int64_t step) { return context_.ranks.rank() == 0 ? command_step(step) : Status(); }
    // Submits a step over the micro-batches of this rank, with the optimizers of a turn. end() must follow.
    virtual Status begin(const std::vector<data::Batch>& micro, int64_t step, double learning_rate) = 0;
    virtual Result<TakenStep> end(int64_t step) = 0;
    // Computes the gradients of a step on this rank alone, into the store.
    Result<StepLoss> gradients(const std::vector<data::Batch>& micro, int64_t step);
    void use(std::vector<Optimizer*> optimizers) { runner_.use(std::move(optimizers)); } // of the following steps

    // The micro-batches of a step that this rank computes.
    virtual MicroRange micro() const;
    // The number of a step in the order of the data.
    virtual int64_t data_step(int64_t step) const { return step; }
    // How many steps follow an announcement, this one included.
    virtual int64_t steps_at_once(int64_t /*step*/) const { return 1; }
    // Whether the training may stop after `step` steps.
    virtual bool may_stop(int64_t /*step*/) const { return true; }

    // Gives all ranks the parameters and the optimizer's states of rank 0; all call it. step: at which this process
    // begins.
    virtual Status synchronize(int64_t step) = 0;
    // Rank 0: divides the parts by the speed of the ranks, if the recipe asks for it. true: other micro-batches than
    // before belong to this rank.
    virtual Result<bool> balance() { return false; }
    // Calls `run` for an evaluation at that step: on rank 0 alone, or on all ranks, which divide its batches. averaged:
    // rank 0 has other parameters than the rest, which count.
    using Evaluate = std::function<Status(exchange::Communicator* ranks)>;
    virtual Status evaluate(int64_t /*step*/, bool /*averaged*/, const Evaluate& run) { return run(nullptr); }
    // Calls `run` on the ranks that an evaluation would run on, without telling them.
    virtual Status rehearse(const Evaluate& run) { return run(nullptr); }

    // Rank 0: a moment of a parameter, on whichever rank it is stored.
    virtual Result<ResourceArray<float>> moment(const program::ParameterEntry& entry, program::StoreArena arena);
    virtual Status set_moment(const program::ParameterEntry& entry, program::StoreArena arena,
                              std::span<const float> values);
    // Rank 0: what a checkpoint has besides the state of one rank.
    virtual Result<std::vector<StateFile>> state_files() { return std::vector<StateFile>(); }

    // Another rank: does its part of a command that concerns steps. internal for another one.
    virtual Status obey(const RankCommand& command);

protected:
    virtual Status command_step(int64_t /*step*/) { return {}; } // rank 0
    StepStrategy(const StepContext& context, StepRunnerOptions runner);
    StepContext context_;
    StepRunner runner_;
};

} // namespace hekla::train
