// The training loop: data to batches, batches to gradients, gradients to updates, updates to checkpoints. Everything
// that a run's bits depend on is a function of (recipe, data, device, kernel choices): a resumed run gives the same
// bits.
#pragma once

#include "base/temporary_folder.hpp"
#include "data/batcher.hpp"
#include "graph/graph.hpp"
#include "model/checkpoint.hpp"
#include "plugin/compose.hpp"
#include "plugin/record.hpp"
#include "program/estimate.hpp"
#include "program/program.hpp"
#include "program/runtime_source.hpp"
#include "text/tokenizer.hpp"
#include "train/evaluate.hpp"
#include "train/features.hpp"
#include "train/fit.hpp"
#include "train/moving_average.hpp"
#include "train/optimizer.hpp"
#include "train/parameter_rules.hpp"
#include "train/recipe.hpp"
#include "train/report.hpp"
#include "train/run_data.hpp"
#include "train/run_folder.hpp"
#include "train/step_scalars.hpp"
#include "train/text_evaluator.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>

namespace hekla::train {

// Called on the thread that runs the loop. Each may be empty.
struct TrainerEvents {
    std::function<void(const StepReport&)> step;
    std::function<void(const EvaluationReport&)> evaluation;
    std::function<void(const std::string&)> message; // one line about what is being done
    // Asked while data is read, where true ends create() with Code::cancelled, and after every step, where true saves a
    // resumable checkpoint and ends the run.
    std::function<bool()> stop;
    // Asked before every step: the step scalars that the host has set so far, which replace the schedules of the
    // recipe.
    std::function<StepScalars::Values()> scalars;
    bool own_threads = true; // false: no thread is begun, everything is done by the one that calls
};

struct TrainerResult {
    int64_t steps = 0;
    double best_evaluation = 0.0; // NaN without one
    int64_t best_step = 0;
    bool stopped = false; // by events.stop
    std::filesystem::path run;
};

enum class Purpose {
    train, // run() will follow: the run's folder is made and locked now
    read,  // the run's files stay as they are: plan, evaluate, replay
};

class Trainer {
public:
    // Reads data and tokenizer, describes the model, asks whether it fits, compiles its programs, allocates everything
    // and, where the run folder has a complete checkpoint, loads it. Nothing is trained. Until run() begins nothing
    // stays on the disk: an error, or going away without run(), leaves no folder behind. failed_precondition where the
    // recipe is not the one that the checkpoint was made with. The device is asked for when the recipe's files are read
    // and its model is described. `registry` and the runtime must outlive this.
    static Result<std::unique_ptr<Trainer>> create(const Recipe& recipe, const plugin::Registry& registry,
                                                   const program::RuntimeSource& device, const Log& log,
                                                   const TrainerEvents& events, Purpose purpose = Purpose::read);
    ~Trainer();
    Trainer(const Trainer&) = delete;
    Trainer& operator=(const Trainer&) = delete;

    // What a training would take on a device that need not be there: data and tokenizer are read and the model is
    // described, nothing else is made. A unit is a step.
    struct Plan {
        program::Estimate estimate;
        int64_t rows = 0, length = 0, steps_left = 0;
    };
    static Result<Plan> plan(const Recipe& recipe, const plugin::Registry& registry, const program::Target& target,
                             const Log& log, const TrainerEvents& events);
    // The same of this training, which is there.
    Result<Plan> plan() const;
    // How long forward and backward of a step take, and each node of them, by this device's own timings: runs the first
    // batch a few times; no parameter changes.
    struct Times {
        double seconds = 0.0;
        bool one_example = false;             // measured with one, as often as a step has them
        std::vector<program::NodeCost> nodes; // of one micro-batch, dearest first
    };
    Result<Times> measure();

    // Runs everything that run() will run, once, and drops what comes of it, so that run() finds it made and known to
    // the driver: no parameter, average, counter or file changes.
    Status rehearse();

    // Needs Purpose::train.
    Result<TrainerResult> run();

    // The whole of a split, with what the head says of every example; failed_precondition where the recipe names none.
    enum class On { valid, test };
    Result<Evaluation> evaluate(On split);
    const RunData& data() const { return data_; }

    // Rebuilds the state after `step` - 1 updates from the nearest checkpoint and computes the gradients of step `step`
    // again, bit for bit (hekla replay). The run's files are not touched.
    struct Replay {
        int64_t from_checkpoint = 0;
        std::vector<data::Batch> batches;
        double loss = 0.0;
        std::vector<std::pair<std::string, ResourceVector<float>>> gradients;
    };
    Result<Replay> replay(int64_t step);

    // What the next `steps` steps are given, micro-batches of a step together, in order. Ends with max_steps.
    Status draw(int64_t steps, const std::function<Status(const std::vector<data::Batch>&)>& take) const;
    // The model as it is now, as a folder that opens everywhere; `folder` exists.
    Status save_model(const std::filesystem::path& folder) const;

    int64_t step() const { return step_; }
    const StepScalars& scalars() const { return scalars_; }
    const text::Tokenizer& tokenizer() const { return *tokenizer_; }
    program::ParameterStore& store() { return *store_; }
    const program::Program& program() const { return *train_program_; }

private:
    Trainer(const Recipe& recipe, const plugin::Registry& registry, std::pmr::memory_resource* host_memory,
            const Log& log, const TrainerEvents& events);
    // Checkpoint, data, tokenizer, description: what needs no device.
    Status read();
    Result<Plan> plan(const program::Target& target) const;
    Status find_checkpoint();
    // Of another model, tokenizer or optimizer: an error. Other settings that the bits depend on: a warning.
    Status same_run(const model::Checkpoint& checkpoint) const;
    Result<std::unique_ptr<text::Tokenizer>> find_tokenizer();
    Status open_tokenizer();
    std::pmr::memory_resource* host_memory() const { return host_memory_; }
    Status open_data();
    Status describe();
    std::map<std::string, std::string> recorded_choices() const;
    Status record_choices() const; // in the run's folder
    std::vector<std::string> kernel_choices() const;
    program::StoreOptions store_options() const;
    program::CompileOptions train_options(std::map<std::string, std::string> kernel_choices) const;
    Result<graph::Graph> differentiated() const; // what a step computes, at its full length
    std::vector<std::string> without_decay() const;
    Status compile();
    Status begin_or_resume();
    Result<TrainerResult> train();
    Status initialize_parameters();
    Result<plugin::Record> make_record(int32_t mode) const;
    Status load_checkpoint(const model::Checkpoint& checkpoint);
    Status save_checkpoint();
    void message(const std::string& text) const {
        if (events_.message) events_.message(text);
    }
    std::vector<int64_t> row_lengths() const; // ascending, the recipe's context length last
    const graph::Graph& described(int64_t length) const;
    program::Program& train_program(int64_t length) const;
    // Parameters, buffers and averages.
    Status load_parameters(const model::Checkpoint& checkpoint);
    // Tensors of one of the checkpoint's files, whose names begin with `prefix`.
    Status load_arena(const model::Checkpoint& checkpoint, const model::Weights& weights, const std::string& prefix,
                      program::StoreArena arena);
    Status swap_average(); // does nothing without one
    FitOptions fit_options() const;
    Status fit();       // micro-batch and recomputation, where the recipe leaves them to the device
    Status load_best(); // the best checkpoint's parameters, where there is one that is not the last
    Status set_evaluation_scalars();
    // On the validation data, as much of it as the recipe says.
    Result<Evaluation> validate(bool whole);
    // Lets the model write texts for so many examples (0: all) and scores them.
    Status add_texts(const Split& split, uint64_t limit, bool predictions, Evaluation& result);
    // How many examples of a split `hekla eval` writes texts for; nothing where it writes none.
    Result<std::optional<uint64_t>> texts_to_write() const;
    int64_t evaluation_batch() const;
    Status keep_texts(const Evaluation& evaluation) const;
    Result<std::unique_ptr<data::Batcher>> batches(int64_t from_step, int64_t batch) const;
    // Sets fields, loss scales; runs forward and backward of all micro-batches. The loss of the step.
    Result<double> gradients(const std::vector<data::Batch>& micro, int64_t step);
    Result<std::vector<data::Batch>> next_micro_batches(data::Batcher& batcher) const;
    Result<std::vector<double>> loss_counts(const data::Batch& batch) const;
    Status set_fields(program::Program& program, const data::Batch& batch) const;

    const plugin::Registry& registry_;
    program::Runtime* runtime_ = nullptr; // null while files are read, and for a plan alone
    std::pmr::memory_resource* host_memory_;
    Log log_;
    TrainerEvents events_;
    Recipe recipe_;
    std::filesystem::path run_;
    RunFolder folder_;                         // Purpose::train
    std::optional<TemporaryFolder> temporary_; // Purpose::read: tokenized text that the run has no place for; before
                                               // data_, whose files lie in there
    std::optional<model::Checkpoint> found_;   // to go on from
    std::unique_ptr<text::Tokenizer> tokenizer_;
    RunData data_;
    std::unique_ptr<plugin::Composition> composition_;
    mutable std::map<int32_t, std::optional<plugin::Record>> records_; // by mode
    graph::Graph described_; // mode train, not differentiated: counts are computed from it
    std::unique_ptr<program::ParameterStore> store_;
    std::unique_ptr<program::Program> train_program_;
    // The same for shorter rows, where they are grouped by length.
    struct Shorter {
        graph::Graph described;
        std::unique_ptr<program::Program> program;
    };
    std::map<int64_t, Shorter> shorter_;
    ParameterRules rules_;
    StepScalars scalars_;
    std::optional<graph::FrozenCut> cut_;   // where what a frozen body says is kept
    std::vector<std::string> start_random_; // parameters; none where a checkpoint was found
    std::string teacher_;                   // a hash of its parameters; empty without one
    nlohmann::ordered_json base_;           // infer::base_of() the model whose body an adapter changes; or null
    std::set<std::string> of_base_;         // parameters and buffers of that body
    std::optional<Features> features_;      // computed before the first step
    std::unique_ptr<Evaluator> evaluator_;  // where there is validation or test data
    std::unique_ptr<TextEvaluator> texts_;  // made when the first text is to be written
    std::unique_ptr<Optimizer> optimizer_;
    std::unique_ptr<MovingAverage> average_; // with train.ema_decay
    int64_t step_ = 0;
    double best_evaluation_ = 0.0;
    int64_t best_step_ = -1;
    int64_t evaluations_since_best_ = 0;
    double trained_seconds_ = 0.0;
    LossWindow loss_window_;
    double peak_flops_ = 0.0;
};

} // namespace hekla::train
