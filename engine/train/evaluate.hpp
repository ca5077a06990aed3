// Evaluates a split of the data: loss, scores and the head's predictions.
#pragma once

#include "program/program.hpp"
#include "train/batch_wait.hpp"
#include "train/run_data.hpp"
#include "train/step_scalars.hpp"

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hekla::train {

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
    // results do not depend on the batch size. classes: names of the labels in predictions; may be empty. cancelled if
    // events.stop asks to stop while a batch is awaited.
    Result<Evaluation> run(const Split& split, uint64_t limit, bool predictions, std::span<const std::string> classes);

    void observe(BatchObserver observer) { observer_ = std::move(observer); }
    // Sets step scalars in all programs, for the following runs.
    Status set_scalars(const StepScalars& scalars);
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
    const plugin::Composition* composition_ = nullptr;
    int64_t batch_ = 0;
    uint64_t seed_ = 0;
    std::pmr::memory_resource* memory_ = nullptr; // of batches
    std::map<int64_t, Length> lengths_;
    std::vector<std::string> decode_ports_; // empty if nothing is decoded
    BatchObserver observer_;                // may be empty
    TrainerEvents events_;
    BatchMaker maker_;
    std::unique_ptr<data::Batcher> stopped_; // of a run() that was stopped; a plugin may still run on its thread
};

} // namespace hekla::train
