// The program of a step's updates where optimizers describe them as graphs: each parameter's update with its own
// states, one after the other. A skipped step leaves all as it was.
#pragma once

#include "graph/graph.hpp"
#include "program/lowering/compile_options.hpp"
#include "program/lowering/optimizer.hpp"

#include <span>
#include <string>
#include <vector>

namespace hekla::plugin {
struct UpdateGraph;
}

namespace hekla::train {

// How a parameter is updated.
struct PlannedUpdate {
    std::string parameter;
    const plugin::UpdateGraph* update = nullptr;
    double factor = 1.0; // of the learning rate
};

// A state of a parameter: its place in the store and in checkpoints.
struct UpdateTensor {
    std::string state; // of the store
    std::string name;  // of the tensor in a checkpoint: "exp_avg.h.0.attn.c_attn.weight"
    graph::Shape shape;
    float initial = 0.0f; // of every element
};

struct UpdateProgram {
    graph::Graph graph;
    program::CompileOptions options; // without limits
    std::vector<UpdateTensor> states;
};

// Returns the program; the state `decision` of another program (OptimizerStage::judge) decides about the step before
// it. The step scalar kLearningRate is the step's learning rate.
Result<UpdateProgram> update_program(std::span<const PlannedUpdate> updates,
                                     const std::string& decision = program::kOptimizerState);

} // namespace hekla::train
