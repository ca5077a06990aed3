// The update of a parameter as an optimizer describes it: a graph whose inputs and outputs have the names below.
#pragma once

#include "graph/graph.hpp"

#include "hekla/plugin/optimizer.h"

#include <string>
#include <vector>

namespace hekla::plugin {

// Fields of an update's graph, which are float. kUpdateParameter is the name of its output, too.
inline constexpr const char* kUpdateParameter = "parameter";
inline constexpr const char* kUpdateGradient = "gradient";
inline constexpr const char* kUpdateLearningRate = "learning_rate";
inline constexpr const char* kUpdateStep = "step";
// Prefix of the field with a state's value, and of the output with its next one.
inline constexpr const char* kUpdateState = "state.";

// hk_optimized: what an optimizer sees of a parameter.
struct OptimizedParameter {
    graph::Shape shape;
    uint32_t flags = 0; // HK_OPTIMIZED_*

    bool operator==(const OptimizedParameter&) const = default;
};

struct UpdateState {
    std::string name;
    graph::Shape shape;
    double initial = 0.0; // of every element
};

struct UpdateGraph {
    graph::Graph graph;
    std::vector<UpdateState> states; // in the order of declaration
};

// Makes an update of what an optimizer described: a graph with the output kUpdateParameter, whose state_read become
// fields and whose state_write become outputs. `what` begins the message. Errors: a state that is read or written
// twice, or not both; a name or initial value that cannot be; another shape; leaves that an update cannot read.
Result<UpdateGraph> update_of(const graph::Graph& described, const std::string& what);

} // namespace hekla::plugin
