// A run of training: its recipe, data, model, programs and state. Defines how a step and an evaluation are computed and
// the contents of a checkpoint; TrainingLoop decides when. All of it is a function of (recipe, data, device, kernel
// choices), so a resumed run computes the same bits.
#pragma once

#include "base/temporary_folder.hpp"
#include "data/batcher.hpp"
#include "exchange/communicator.hpp"
#include "graph/graph.hpp"
#include "model/checkpoint.hpp"
#include "plugin/compose.hpp"
#include "plugin/record.hpp"
#include "program/estimate.hpp"
#include "program/program.hpp"
#include "program/runtime_source.hpp"
#include "text/tokenizer.hpp"
#include "train/alternation.hpp"
#include "train/batch_wait.hpp"
#include "train/evaluate.hpp"
#include "train/exchange_plan.hpp"
#include "train/features.hpp"
#include "train/fit.hpp"
#include "train/islands.hpp"
#include "train/moving_average.hpp"
#include "train/optimizer.hpp"
#include "train/parameter_rules.hpp"
#include "train/recipe.hpp"
#include "train/recipe_rollouts.hpp"
#include "train/rollouts.hpp"
#include "train/routing_report.hpp"
#include "train/run_data.hpp"
#include "train/run_folder.hpp"
#include "train/run_progress.hpp"
#include "train/sharded_step.hpp"
#include "train/step_runner.hpp"
#include "train/step_scalars.hpp"
#include "train/taps.hpp"
#include "train/text_evaluator.hpp"
#include "train/training_events.hpp"
#include "train/update_rules.hpp"
#include "train/weight_mask.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>

namespace hekla::train {

enum class Purpose {
    train,   // a TrainingLoop follows: the run's folder is created and locked now
    read,    // plan, evaluate, replay: the run's files do not change
    join,    // serve() follows: this is another rank than 0 of a training, and does not use the run's folder
    initial, // evaluate what the recipe's training would begin with: the run's checkpoints are not read either
};

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
    // the model. The estimate's unit is a step.
    struct Plan {
        program::Estimate estimate;
        int64_t rows = 0, length = 0, steps_left = 0;
        int64_t embeddings = 0; // of the parameters
        uint64_t examples = 0;  // of an epoch
        uint64_t rollouts = 0;  // bytes of the host's memory for the completions of an iteration
        ExchangePlan exchange;  // with several ranks
    };
    static Result<Plan> plan(const Recipe& recipe, const plugin::Registry& registry, const program::Target& target,
                             const Log& log, const TrainerEvents& events, const PlannedRanks& ranks = {});
    // Returns a mask of all weights that the recipe's [prune] may prune; those that prune.from_mask prunes are pruned.
    // Reads data and tokenizer and describes the model, without a device.
    static Result<WeightMask> prunable(const Recipe& recipe, const plugin::Registry& registry, const Log& log,
                                       const TrainerEvents& events);
    Result<Plan> plan() const; // for this run on its device
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
    // Writes the current model as a folder that other programs can open; `folder` exists.
    Status save_model(const std::filesystem::path& folder) const;

    const Recipe& recipe() const { return recipe_; } // resolved: train.fit and num_train_epochs have been applied
    const std::filesystem::path& folder() const { return run_; }
    const RunData& data() const { return data_; }
    bool learns_from_rollouts() const { return learns_from_rollouts_; }
    double examples_per_step() const;
    const text::Tokenizer& tokenizer() const { return *tokenizer_; }
    const plugin::Composition& composition() const { return *composition_; }
    program::Runtime& runtime() const { return *runtime_; }
    program::ParameterStore& store() { return *store_; }
    const program::Program& program() const { return *train_program_; } // for rows of the full length
    const StepScalars& scalars() const { return scalars_; }
    const Taps& taps() const { return taps_; }
    const Log& log() const { return log_; }
    const TrainerEvents& events() const { return events_; }
    RunProgress& progress() { return progress_; }
    int64_t step() const { return progress_.step; }
    // The step whose checkpoint is kept, because masked runs will start from it (prune.rewind_step).
    std::optional<int64_t> rewind_step() const;
    bool resumed() const { return found_.has_value(); } // from a checkpoint of its own folder

    // Takes part in the training of rank 0 until that ends it (Purpose::join).
    Status serve();
    const exchange::Communicator& ranks() const { return *ranks_; }

    // For TrainingLoop and Replayer:

    // Makes weights and optimizer of all ranks those of this one, rank 0. A training begins with it.
    Status synchronize();
    // Divides the parts of a step by the speed of the ranks, if the recipe asks for it. true: batches() that were
    // started before are not those of the next steps.
    Result<bool> balance_ranks();
    // Whether the training may stop now: islands stop after an average.
    bool may_stop() const { return !has_islands() || step() % recipe_.distributed.inner_steps == 0; }
    // Ends serve() of the other ranks.
    Status end_ranks();

    // Writes the tokenizer, the resolved recipe and the kernel choices into the run's folder, which is kept from now
    // on. failed_precondition without Purpose::train.
    Status start();
    // Returns whether the next step needs rollouts that do not exist yet: those of a new iteration.
    bool rollouts_due() const { return rollouts_ != nullptr && rollouts_->due(step()); }
    // Makes them if they are due. Batches that were started before do not have them. cancelled: asked to stop.
    Status roll_out();
    // Shows what the model writes now, in the run's folder; does nothing without rollouts.
    Status write_samples() { return rollouts_ != nullptr ? rollouts_->write_samples(step()) : Status(); }
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
    BatchMaker batch_maker() const;
    // Ends the threads of a training that was asked to stop: those of `batcher` and of an evaluation.
    void end_batches(data::Batcher& batcher);
    double peak_flops() const { return peak_flops_; } // measured, per second; 0: not known
    std::vector<std::string> gradient_names() const { return train_program_->gradient_names(); }
    Result<double> loss_scale() const { return optimizers_.front()->loss_scale(); }

private:
    // Whether a step is computed in parts, whose gradients are added on the host.
    bool is_sharded() const { return !has_islands() && (rank_count() > 1 || recipe_.distributed.parts > 1); }
    int32_t rank_count() const { return planned_.ranks > 0 ? planned_.ranks : ranks_->size(); }
    // Whether ranks train alone between averages.
    bool has_islands() const { return recipe_.distributed.mode == "diloco"; }
    bool is_average_due(int64_t steps) const {
        return has_islands() && (steps % recipe_.distributed.inner_steps == 0 || steps == recipe_.train.max_steps);
    }
    Status check_islands() const;
    // The number of a step in the order of the data, which islands divide.
    int64_t data_step(int64_t step) const { return has_islands() ? step * ranks_->size() + ranks_->rank() : step; }
    Status command_inner_steps(int64_t step);
    Status run_inner_steps(int64_t step);
    // What an island keeps for itself, on rank 0: a moment of a parameter, or the optimizer's states.
    Result<ResourceArray<float>> island_moment(int32_t island, const program::ParameterEntry& entry,
                                               program::StoreArena arena) const;
    Status set_island_moment(int32_t island, const program::ParameterEntry& entry, program::StoreArena arena,
                             std::span<const float> values);
    Result<std::vector<std::byte>> island_states(int32_t island) const;
    Status set_island_states(int32_t island, std::vector<std::byte> states);
    Status add_islands(model::CheckpointWriter& writer);
    Status load_islands(const model::Checkpoint& checkpoint);
    ShardedStep::Options sharded_options() const;
    uint32_t micro_steps() const; // of this rank in a step
    // Replaces distributed.batch = "rank" by the batch of a step. before: the recipe of the run so far; null: it
    // starts.
    Status settle_batch(const Recipe* before);
    // Chooses distributed.parts if the recipe does not. of_checkpoint: those of the run so far; 0: it starts.
    Status settle_parts(int64_t of_checkpoint);
    // What ranks exchange before a training.
    Status greet();
    Status compare_runs();
    Status send_start();
    Status receive_start();
    Status send_choices();
    Result<nlohmann::json> receive_choices() const;
    Status command_step(int64_t step, double learning_rate);
    Status command_evaluation();
    Status command_rollouts();
    Status synchronize_state();
    Status check_ranks(int64_t step); // after this step, if distributed.check_every asks for it
    bool divides_evaluations() const { return ranks_->size() > 1 && !has_islands(); }
    // ranks: that each do a part; null: this one alone.
    Result<Evaluation> validate(bool whole, exchange::Communicator* ranks);
    // A moment of a parameter, on whichever rank it is stored.
    Result<ResourceArray<float>> moment(const program::ParameterEntry& entry, program::StoreArena arena) const;
    Status set_moment(const program::ParameterEntry& entry, program::StoreArena arena, std::span<const float> values);
    bool has_moment(program::StoreArena arena) const;
    // Returns a source of the tensor PREFIX + the parameter's name, which is read when it is written; an error if it is
    // not finite.
    static model::TensorSource float_source(const std::string& prefix, const program::ParameterEntry& entry,
                                            std::function<Result<ResourceArray<float>>()> read);
    // Reads that tensor of a checkpoint's file. failed_precondition if it has another shape, corrupt if it is not
    // finite.
    static Result<ResourceArray<float>> load_values(const std::filesystem::path& folder, const model::Weights& weights,
                                                    const std::string& prefix, const program::ParameterEntry& entry);

    // A state of an optimizer that is a graph, to and from a checkpoint.
    model::TensorSource update_tensor_source(const UpdateTensor& tensor) const;
    Status load_update_tensor(const std::filesystem::path& folder, const model::Weights& weights,
                              const UpdateTensor& tensor);

    // Sets the values of the step scalars and, before the first step, computes the outputs of frozen layers.
    Status prepare_step(int64_t step);
    TrainingRun(const Recipe& recipe, const plugin::Registry& registry, std::pmr::memory_resource* host_memory,
                const Log& log, const TrainerEvents& events);
    Status open(const program::RuntimeSource& device, Purpose purpose); // what create() does
    // Reads checkpoint, data and tokenizer and describes the model, without a device.
    Status read();
    Result<Plan> plan(const program::Target& target) const;
    Status find_checkpoint();
    // Returns an error for another model, tokenizer or optimizer; warns of other settings that affect the bits.
    Status same_run(const model::Checkpoint& checkpoint);
    Result<std::unique_ptr<text::Tokenizer>> find_tokenizer();
    Status open_tokenizer();
    std::pmr::memory_resource* host_memory() const { return host_memory_; }
    Status open_data();
    Status check_labels() const;     // that there is something to learn
    Status check_validation() const; // that there is validation data, if the training needs some
    Status tell_text_rules() const;  // of a run that begins
    Status describe();
    // Describes a step over a batch of these fields, without dropout if the recipe turns it off.
    Result<graph::Graph> build_step(const std::vector<plugin::BatchField>& fields) const;
    std::vector<program::ParameterEntry> parameters() const; // without their places in a store
    // The same for a store whose parameters `step`, a graph with gradients, reads.
    std::vector<program::ParameterEntry> parameters_read_by(const graph::Graph& step) const;
    Status open_mask();
    Status start_masked();
    Status apply_mask(); // to weights and moments
    Status describe_updates();
    OptimizerRules optimizer_rules() const; // refers to this
    std::map<std::string, std::string> recorded_choices() const;
    double recorded_peak() const;  // of kernels.json; 0: none of this device
    Status record_choices() const; // in the run's folder
    Result<std::string> config_text(const std::filesystem::path& folder) const;
    Status save_slot(const std::filesystem::path& folder, std::size_t slot, const model::ModelContents& all) const;
    std::vector<model::TensorSource> own_tensors() const;
    Status measure_peak();
    Status freeze_for_adapters(const plugin::CompositionSpec& spec, const std::vector<std::string>& names,
                               const std::set<std::string>& body, const std::vector<plugin::BatchField>& fields);
    std::vector<std::string> kernel_choices() const;
    program::StoreOptions store_options() const;
    program::CompileOptions train_options(std::map<std::string, std::string> kernel_choices) const;
    // The graph of a step at full length; of a turn: where only its losses count.
    Result<graph::Graph> differentiated(const Alternation::Turn& turn = {}) const;
    Result<graph::Graph> differentiated(const graph::Graph& described, const Alternation::Turn& turn = {}) const;
    Status describe_alternation();
    Status compile_turns(program::CompileOptions options);
    Status create_optimizers(const std::vector<std::string>& reached);
    std::vector<Optimizer*> optimizers_of(std::size_t turn) const;
    std::vector<std::string> optimizer_states() const; // of the store, which are saved
    Status compile();
    Status begin_or_resume();
    Status initialize_parameters();
    Result<plugin::Record> make_record(int32_t mode) const;
    void message(const std::string& text) const {
        if (events_.message) events_.message(text);
    }
    // Writes the chat template of the data, or else of the tokenizer's folder, into the run's folder.
    Status save_chat_template() const;
    std::filesystem::path first_generation_settings() const;
    Status save_generation_settings() const;
    // Reads [rollout] where the objective learns from rollouts.
    Status describe_rollouts();
    RolloutContext rollout_context() const;
    std::vector<int64_t> row_lengths() const; // ascending, the recipe's context length last
    const graph::Graph& described(int64_t length) const;
    program::Program& train_program(int64_t length) const;
    // Loads parameters, buffers and averages.
    Status load_parameters(const model::Checkpoint& checkpoint);
    // Loads parameters and buffers from the folder of a checkpoint or a model.
    Status load_weights(const std::filesystem::path& folder);
    // Loads tensors of one of the folder's files whose names begin with `prefix`.
    Status load_arena(const std::filesystem::path& folder, const model::Weights& weights, const std::string& prefix,
                      program::StoreArena arena);
    FitOptions fit_options() const;
    Status fit(); // chooses micro-batch and recomputation if the recipe leaves them to the device
    // Generates texts for up to `limit` examples (0: all) and scores them. ranks: that each write a part; may be null.
    Status add_texts(const Split& split, uint64_t limit, bool predictions, Evaluation& result,
                     exchange::Communicator* ranks = nullptr);
    Result<nlohmann::json> generation_settings() const;        // of the run
    Result<nlohmann::json> shared_generation_settings() const; // those of rank 0; all ranks call it
    // Returns the number of examples of a split that `hekla eval` generates texts for (0: all); nothing if it generates
    // none.
    Result<std::optional<uint64_t>> texts_to_write() const;
    int64_t evaluation_batch() const;
    Result<std::unique_ptr<data::Batcher>> batches(int64_t from_step, int64_t rows) const;
    int64_t last_step() const { return std::max<int64_t>(step() - 1, 0); } // from 0
    Status set_evaluation_scalars();
    // Returns whether the terms of the loss are read in addition to their sum.
    bool named_losses() const { return described_.losses.size() > 1; }

    const plugin::Registry& registry_;
    program::Runtime* runtime_ = nullptr; // null while files are read, and for an estimate
    std::pmr::memory_resource* host_memory_;
    exchange::Communicator alone_;
    exchange::Communicator* ranks_ = &alone_;
    PlannedRanks planned_; // of an estimate; ranks 0: those of ranks_
    Log log_;
    TrainerEvents events_;
    Recipe recipe_;
    std::filesystem::path run_;
    RunFolder folder_;                         // Purpose::train
    std::optional<TemporaryFolder> temporary_; // Purpose::read: tokenized text, if the run has no folder for it;
                                               // declared before data_, whose files are in it
    std::optional<TemporaryFolder> joined_;    // Purpose::join: the tokenizer of rank 0
    nlohmann::json choices_of_rank_0_;         // Purpose::join
    bool resumes_ = true;                      // not with Purpose::initial and join
    std::optional<model::Checkpoint> found_;   // to resume from
    std::unique_ptr<text::Tokenizer> tokenizer_;
    text::TextRules text_rules_;     // those of the recipe; a resumed run keeps those that it began with
    std::optional<double> held_out_; // of the run that is resumed or joined; unset: the recipe's
    RunData data_;
    std::unique_ptr<plugin::Composition> composition_;
    mutable std::map<int32_t, std::optional<plugin::Record>> records_; // by mode
    graph::Graph described_; // mode train, not differentiated: counts are computed from it
    std::unique_ptr<program::ParameterStore> store_;
    std::unique_ptr<program::Program> train_program_;
    // Programs for shorter rows, if they are grouped by length.
    struct Shorter {
        graph::Graph described;
        std::unique_ptr<program::Program> program;
    };
    std::map<int64_t, Shorter> shorter_;
    std::set<std::string> body_; // parameters of the body
    ParameterRules rules_;
    UpdateRules updates_;
    std::optional<WeightMask> mask_; // with prune.from_mask
    StepScalars scalars_;
    Taps taps_;                             // of [tap]
    std::optional<graph::FrozenCut> cut_;   // if the outputs of frozen layers are cached
    std::vector<std::string> start_random_; // parameters; empty if a checkpoint was found
    std::string teacher_;                   // a hash of its parameters; empty without one
    nlohmann::ordered_json base_;           // infer::base_of() the model whose body an adapter changes, or null
    std::set<std::string> of_base_;         // parameters and buffers of that body
    std::optional<Features> features_;      // computed before the first step
    std::unique_ptr<Evaluator> evaluator_;  // if there is validation or test data
    RoutingReport routing_;                 // with TrainerEvents::routing
    std::unique_ptr<TextEvaluator> texts_;  // created when the first text is generated
    bool learns_from_rollouts_ = false;
    plugin::CompositionSpec policy_; // the model without objective and teacher, for rollouts
    std::unique_ptr<plugin::RolloutUse> rollout_use_;
    std::unique_ptr<Rollouts> rollouts_; // where the objective learns from them
    Alternation alternation_;            // of train.alternate
    std::size_t turn_ = 0;               // of the current step
    // Programs of the turns after the first one, by the length of rows.
    std::vector<std::map<int64_t, std::unique_ptr<program::Program>>> turn_programs_;
    std::vector<std::unique_ptr<Optimizer>> optimizers_; // by class of alternation_, or one
    std::unique_ptr<MovingAverage> average_;             // with train.ema_decay
    std::optional<StepRunner> runner_;
    std::unique_ptr<ShardedStep> sharded_; // if is_sharded()
    std::unique_ptr<Islands> islands_;     // if has_islands()
    RunProgress progress_;
    int64_t first_step_ = 0; // at which this process began to train
    double peak_flops_ = 0.0;
};

} // namespace hekla::train
