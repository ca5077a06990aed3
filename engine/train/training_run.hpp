// A training as its stages (train/run/): what it has read, describes, compiled, and the values that a step changes.
// Defines how a step and an evaluation are computed; TrainingLoop decides when. All of it is a function of (recipe,
// data, device, kernel choices), so a resumed run computes the same bits.
#pragma once

#include "data/batcher.hpp"
#include "program/node_cost.hpp"
#include "program/runtime_source.hpp"
#include "train/recipe/recipe.hpp"
#include "train/run/run_context.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace hekla::model {
struct Checkpoint;
class CheckpointWriter;
} // namespace hekla::model
namespace hekla::plugin {
class Composition;
}
namespace hekla::program {
class ParameterStore;
class Program;
class Runtime;
struct Target;
} // namespace hekla::program
namespace hekla::text {
class Tokenizer;
}

namespace hekla::train {

class CompiledTraining;
struct DescribedTraining;
struct Evaluation;
struct PreparedRun;
class RunData;
struct RunProgress;
struct StepLoss;
class StepScalars;
struct TakenStep;
class Taps;
struct TrainingPlan;
class TrainingState;
class WeightMask;

// A training. Thread: one at a time.
class TrainingRun {
public:
    // Reads data and tokenizer, describes the model, checks that it fits, compiles its programs, allocates everything
    // and, if the run's folder has a complete checkpoint, loads it. Trains nothing. After an error, or if no
    // TrainingLoop starts the run, nothing is left in the folder. failed_precondition if the recipe differs from the
    // checkpoint's; cancelled if events.stop asks for it. The device is requested after the recipe's files were read
    // and its model was described. `ranks`: of a training by several ranks, each of which calls this, rank 0 with
    // Purpose::train and the others with Purpose::join; null: alone. `registry`, the runtime and `ranks` must outlive
    // this.
    static Result<std::unique_ptr<TrainingRun>> create(const Recipe& recipe, const plugin::Registry& registry,
                                                       const program::RuntimeSource& device, const Log& log,
                                                       const TrainerEvents& events, Purpose purpose = Purpose::read,
                                                       exchange::Communicator* ranks = nullptr);
    ~TrainingRun();
    TrainingRun(const TrainingRun&) = delete;
    TrainingRun& operator=(const TrainingRun&) = delete;

    // Estimates memory and time of a training on a device that need not exist: reads data and tokenizer and describes
    // the model.
    static Result<TrainingPlan> plan(const Recipe& recipe, const plugin::Registry& registry,
                                     const program::Target& target, const Log& log, const TrainerEvents& events,
                                     const PlannedRanks& ranks = {});
    // Returns a mask of all weights that the recipe's [prune] may prune; those that prune.from_mask prunes are pruned.
    // Reads data and tokenizer and describes the model, without a device.
    static Result<WeightMask> prunable(const Recipe& recipe, const plugin::Registry& registry, const Log& log,
                                       const TrainerEvents& events);
    Result<TrainingPlan> plan() const; // for this run on its device
    // Measures forward and backward of a step, and of each node: runs the next batch (the first one, if the run is
    // finished) a few times. No parameter changes.
    struct Times {
        double seconds = 0.0;
        bool one_example = false;             // one example was measured, times the examples of a step
        std::vector<program::NodeCost> nodes; // of one micro-batch, most expensive first
    };
    Result<Times> measure();

    // Runs everything that a step and an evaluation run, once, and drops the results, so that the driver has compiled
    // and allocated it. No parameter, average, counter or file changes.
    Status rehearse();

    // Evaluates a whole split, with the head's predictions; failed_precondition if the recipe has no such data.
    enum class On { valid, test };
    Result<Evaluation> evaluate(On split);
    // Returns whether exp(loss) is a perplexity: is_token_loss() of the evaluation.
    Result<bool> has_token_loss() const;

    // Passes `take` the micro-batches of each of the next `steps` steps, in order; ends with max_steps.
    // With rollouts: at most those of the current iteration.
    Status draw(int64_t steps, const std::function<Status(const std::vector<data::Batch>&)>& take);
    Status save_model(const std::filesystem::path& folder) const;

    const Recipe& recipe() const; // resolved
    const std::filesystem::path& folder() const;
    const RunData& data() const;
    const text::Tokenizer& tokenizer() const;
    const plugin::Composition& composition() const;
    program::Runtime& runtime() const;
    program::ParameterStore& store();
    const program::Program& program() const; // for rows of the full length
    const StepScalars& scalars() const;
    const Taps& taps() const;
    const Log& log() const { return context_.log; }
    const TrainerEvents& events() const { return context_.events; }
    RunProgress& progress();
    int64_t step() const;
    double epochs() const; // so far
    // The step whose checkpoint is kept, because masked runs will start from it (prune.rewind_step).
    std::optional<int64_t> rewind_step() const;
    bool resumed() const; // from a checkpoint of its own folder

    const exchange::Communicator& ranks() const { return context_.ranks; }

    // For TrainingLoop and Replayer:

    // Makes weights and optimizer of all ranks those of this one, rank 0. A training begins with it.
    Status synchronize();
    // Divides the parts of a step by the speed of the ranks, if the recipe asks for it. true: batches() that were
    // started before are not those of the next steps.
    Result<bool> balance_ranks();
    // Whether the training may stop now: islands stop after an average.
    bool may_stop() const;
    // Ends serve_rank_0() of the other ranks.
    Status end_ranks();

    // Writes the tokenizer, the resolved recipe and the kernel choices into the run's folder, which is kept from now
    // on. failed_precondition without Purpose::train.
    Status start();
    // Returns whether the next step needs rollouts that do not exist yet: those of a new iteration.
    bool rollouts_due() const;
    // Makes them if they are due. Batches that were started before do not have them. cancelled: asked to stop.
    Status roll_out();
    // Shows what the model writes now, in the run's folder; does nothing without rollouts.
    Status write_samples();
    // Returns batches from the first micro-batch of that step on; with rollouts until the end of their iteration.
    // `this` must outlive the result.
    Result<std::unique_ptr<data::Batcher>> batches(int64_t from_step) const;
    // Returns the micro-batches of the next step, of which `ready` were taken before; nothing if the training is asked
    // to stop while it waits for them. After some seconds, logs what it waits for.
    Result<std::optional<std::vector<data::Batch>>> next_micro_batches(data::Batcher& batcher,
                                                                       std::vector<data::Batch> ready = {}) const;
    // Takes the micro-batches of a step that are ready, without waiting: those still missing in `micro`. An error is
    // returned by next_micro_batches().
    void take_ready_batches(data::Batcher& batcher, std::vector<data::Batch>& micro) const;
    // Computes the gradients of a step into the store.
    Result<StepLoss> gradients(const std::vector<data::Batch>& micro, int64_t step);
    // Submits a step: its gradients and their update. `step` is of applied and skipped steps before it. end_step() must
    // follow; the host is free in between.
    Status begin_step(const std::vector<data::Batch>& micro, int64_t step, double learning_rate);
    // Waits for the step, and updates the average.
    Result<TakenStep> end_step();
    double flops(const std::vector<data::Batch>& micro) const; // of gradients()
    // Exchanges weights and averages; does nothing without train.ema_decay.
    Status swap_average();
    // Evaluates on the part of the validation data that the recipe sets, or on all of it.
    Result<Evaluation> validate(bool whole);
    // Returns "tensor "x": element 3 is nan" for a parameter, or, with `gradients`, for a gradient; empty if all are
    // finite.
    Result<std::string> describe_non_finite(bool gradients);
    // Writes the whole state as a checkpoint's files, not committed yet. corrupt if a tensor is not finite.
    Result<model::CheckpointWriter> write_checkpoint();
    Status load_checkpoint(const model::Checkpoint& checkpoint);
    // Restores the state before the first step.
    Status restart();
    // Loads the parameters of the best checkpoint, if there is one and it is not the current state.
    Status load_best();
    // Ends the threads of a training that was asked to stop: those of `batcher` and of an evaluation.
    void end_batches(data::Batcher& batcher);
    double peak_flops() const;    // measured, per second; 0: not known
    CompiledTraining& compiled(); // for serve_rank_0()
    std::vector<std::string> gradient_names() const;
    Result<double> loss_scale() const;

private:
    TrainingRun(const plugin::Registry& registry, std::pmr::memory_resource* host_memory, const Log& log,
                const TrainerEvents& events, exchange::Communicator* ranks);
    Status open(const Recipe& recipe, const program::RuntimeSource& device, Purpose purpose);
    // Chooses micro-batch and recomputation where the recipe leaves them to the device.
    Status fit(program::Runtime& runtime);
    Status describe();
    // Returns the number of examples of a split that `hekla eval` generates texts for (0: all); nothing if it generates
    // none.
    Result<std::optional<uint64_t>> texts_to_write() const;

    exchange::Communicator alone_;
    RunContext context_;
    std::unique_ptr<PreparedRun> prepared_;
    std::unique_ptr<DescribedTraining> described_;
    std::unique_ptr<CompiledTraining> compiled_;
    std::unique_ptr<TrainingState> state_;
};

} // namespace hekla::train
