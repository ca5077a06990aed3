// Evaluates a split of the data: loss, scores and the head's predictions.
#pragma once

#include "batch/rows_by_length.hpp"
#include "graph/graph.hpp"
#include "program/lowering/compile_options.hpp"
#include "train/step/batch_wait.hpp"

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hekla::exchange {
class Communicator;
}
namespace hekla::plugin {
struct BatchField;
class Composition;
} // namespace hekla::plugin
namespace hekla::program {
class ParameterStore;
class Program;
class Runtime;
} // namespace hekla::program

namespace hekla::train {

class Split;
class StepScalars;

// The head's output for one example.
struct Prediction {
    uint64_t example = 0; // of the split
    nlohmann::json predicted;
};

struct Evaluation {
    double loss = 0.0;
    uint64_t examples = 0;
    // Each loss if there are several ("loss.mlm", before its weight), then metrics and scores ("accuracy", ...).
    std::vector<std::pair<std::string, double>> scores;
    std::string table;                           // of classes or generated texts, for people; may be empty
    std::vector<Prediction> predictions;         // in the data's order, if requested
    double score(const std::string& name) const; // "loss" too; NaN if unknown
};

// Compile options, the same as for training, so that equal matrix products use equal kernels.
struct EvaluatorOptions {
    program::Storage precision = program::Storage::f32;
    std::map<std::string, std::string> kernel_choices = {};
    std::vector<std::string> ports = {}; // of the model, which are outputs too, for the observer
};

// Called after every batch, with its fields, of which the first `rows` rows are examples.
using BatchObserver = std::function<Status(program::Program&, std::span<const data::Field> fields, std::size_t rows)>;

// Runs a program with zeros in every field and drops the result.
Status run_over_zeros(program::Program& program, const std::vector<plugin::BatchField>& fields);

class Evaluator {
public:
    // lengths: of rows, ascending. An example uses the shortest that holds it; the longest truncates it. All arguments
    // must outlive this, except the last two, which are copied. Programs are compiled now.
    static Result<std::unique_ptr<Evaluator>> create(program::Runtime& runtime, program::ParameterStore& store,
                                                     const plugin::Composition& composition, int64_t batch,
                                                     const std::vector<int64_t>& lengths, uint64_t seed,
                                                     const EvaluatorOptions& options = {},
                                                     const TrainerEvents& events = {}, const BatchMaker& maker = {});
    ~Evaluator();

    // The programs that create() compiles, by length.
    struct Described {
        graph::Graph graph;
        program::CompileOptions options;
    };
    static Result<std::map<int64_t, Described>> describe(const plugin::Composition& composition, int64_t batch,
                                                         const std::vector<int64_t>& lengths,
                                                         const EvaluatorOptions& options);

    // Evaluates all examples, or, with a limit above 0, that many, evenly spaced and the same ones every time. The
    // results do not depend on the batch size. classes: names of the labels in predictions; may be empty. ranks: all of
    // them call this and divide the batches; the result is that of rank 0. cancelled if events.stop asks to stop while
    // a batch is awaited.
    Result<Evaluation> run(const Split& split, uint64_t limit, bool predictions, std::span<const std::string> classes,
                           exchange::Communicator* ranks = nullptr);

    void observe(BatchObserver observer) { observer_ = std::move(observer); }
    // Sets step scalars in all programs, for the following runs.
    Status set_scalars(const StepScalars& scalars);
    void set_step(uint64_t step) { step_ = step; } // of the training, for the batches of the following runs
    // Ends the thread of a run() that was stopped, like train::end_batches().
    void end_batches();

    Status rehearse();                               // runs every program once, over zeros
    std::vector<std::string> kernel_choices() const; // of all its programs, as Program::kernel_choices() returns them

private:
    Evaluator() = default;
    struct Length {
        graph::Graph graph;
        std::unique_ptr<program::Program> program;
    };
    // What is read of a batch: sum and count of each loss and metric, and the decoded rows.
    struct BatchResult {
        std::vector<double> numbers;
        std::vector<nlohmann::json> rows;
        std::vector<std::pair<int64_t, int64_t>> spans; // by row: the first and last token of the target; -1: none
    };
    Result<BatchResult> run_batch(Length& length, data::Batch& batch, std::size_t rows);
    using Batches = std::vector<std::vector<batch::RowLength>>;
    // Runs every size-th batch from `first` on. Sets `stopped` if events.stop asked to stop; then some have no numbers.
    Result<std::vector<BatchResult>> run_batches(const Split& split, const std::shared_ptr<const Batches>& batches,
                                                 std::size_t first, std::size_t size, bool& stopped);
    static Status gather(exchange::Communicator& ranks, std::vector<BatchResult>& results);
    const plugin::Composition* composition_ = nullptr;
    int64_t batch_ = 0;
    uint64_t seed_ = 0, step_ = 0;
    std::pmr::memory_resource* memory_ = nullptr; // of batches
    std::map<int64_t, Length> lengths_;
    std::vector<std::string> decode_ports_; // empty if nothing is decoded
    BatchObserver observer_;                // may be empty
    TrainerEvents events_;
    BatchMaker maker_;
    std::unique_ptr<data::Batcher> stopped_; // of a run() that was stopped; a plugin may still run on its thread
};

} // namespace hekla::train
