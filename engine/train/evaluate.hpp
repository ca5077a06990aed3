// A split of the data through the network in mode evaluate: loss, scores, and what the head says of every example.
#pragma once

#include "program/program.hpp"
#include "train/run_data.hpp"
#include "train/step_scalars.hpp"

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hekla::train {

// What was said of one example.
struct Prediction {
    uint64_t example = 0; // of the split
    nlohmann::json said;
};

struct Evaluation {
    double loss = 0.0;
    uint64_t examples = 0;
    std::vector<std::pair<std::string, double>> scores; // "accuracy", ...; in the order in which they are told
    std::string table;                           // of classes, or texts that were written, for people; empty without
    std::vector<Prediction> predictions;         // in the data's order, where they were asked for
    double score(const std::string& name) const; // "loss" too; NaN where there is none
};

// How its programs are compiled; as the training's, so that equal products have equal kernels.
struct EvaluatorOptions {
    program::Storage precision = program::Storage::f32;
    std::map<std::string, std::string> kernel_choices = {};
};

// A replay whose result nobody wants: every field is zero.
Status run_over_zeros(program::Program& program, const std::vector<plugin::BatchField>& fields);

class Evaluator {
public:
    // `lengths`: of rows, ascending; an example goes into the shortest that holds it, and the longest cuts it off.
    // Everything given must outlive this. Programs are compiled now.
    static Result<std::unique_ptr<Evaluator>> create(program::Runtime& runtime, program::ParameterStore& store,
                                                     const plugin::Composition& composition, int64_t batch,
                                                     std::vector<int64_t> lengths, uint64_t seed,
                                                     const EvaluatorOptions& options = {});
    ~Evaluator();

    // The programs that create() compiles, by length.
    struct Described {
        graph::Graph graph;
        program::CompileOptions options;
    };
    static Result<std::map<int64_t, Described>> describe(const plugin::Composition& composition, int64_t batch,
                                                         const std::vector<int64_t>& lengths,
                                                         const EvaluatorOptions& options);

    // The first examples, or, with a limit above 0, so many spread evenly over the split: the same ones every time. No
    // number depends on how many rows a batch has. classes: names of the labels in predictions; may be empty.
    Result<Evaluation> run(const Split& split, uint64_t limit, bool predictions, std::span<const std::string> classes);

    // Gives the values of step scalars to all programs, for the runs that follow.
    Status set_scalars(const StepScalars& scalars);

    // Every program once, over zeros.
    Status rehearse();
    std::vector<std::string> kernel_choices() const; // of all its programs, as Program::kernel_choices() says them

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
    std::vector<std::string> decode_ports_; // empty where nothing is decoded
};

} // namespace hekla::train
