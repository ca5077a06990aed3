// Pointwise operations: the groups of nodes that become one kernel, and the kernels. A generated kernel gives the same
// bits as the single ones: both call the functions of shaders/pointwise/operations.glsl, and nothing is contracted.
#pragma once

#include "program/lowering/lowering.hpp"

#include <array>
#include <map>
#include <string>
#include <vector>

namespace hekla::program {

// Nodes of one shape that one kernel computes. The kernel runs at the position of the last of them.
struct PointwiseGroup {
    std::vector<graph::NodeId> nodes;    // in the graph's order
    std::vector<graph::ValueId> outputs; // read outside the group, in the graph's order
};

class PointwiseGroups {
public:
    void add(PointwiseGroup group);
    const PointwiseGroup* ending_at(graph::NodeId node) const; // null: none does
    bool inside(graph::NodeId node) const { return members_.contains(node); }
    const std::vector<PointwiseGroup>& all() const { return groups_; }

private:
    std::vector<PointwiseGroup> groups_;
    std::map<graph::NodeId, std::size_t> members_;
    std::map<graph::NodeId, std::size_t> ends_;
};

// Returns, by value, the needed nodes that read it, in order; a node once for each of its inputs.
std::vector<std::vector<graph::NodeId>> readers_of(const graph::Graph& graph, const std::vector<bool>& needed);

// Returns the groups, none if kernels cannot be generated. `needed`: nodes that are computed at all; `kept`: values
// that are needed outside.
PointwiseGroups group_pointwise(const graph::Graph& graph, const std::vector<bool>& needed,
                                const std::vector<graph::ValueId>& kept, const Limits& limits);

// Appends the group's kernel and sets the views of its outputs.
Status lower_group(Lowering& lowering, const PointwiseGroup& group);

// Returns whether the node passes its input through unchanged, so that its result is a view.
bool is_same(const graph::Graph& graph, const graph::Node& node);

// Returns how the result of a pointwise operation is stored.
Storage storage_of_result(const Lowering& lowering, graph::ValueId value);

// One row of shaders/pointwise/operations.inc.
struct PointwiseKernel {
    uint32_t number;
    std::string_view name;      // op_NAME is the function
    std::string_view signature; // "f_iff": float of (int32, float, float); p: a numeric argument in the record
};

// The kernel of a node, and its numeric arguments for the record (clamp's bounds).
struct PointwiseChoice {
    const PointwiseKernel* kernel = nullptr;
    float p = 0;
    float q = 0;
};
Result<PointwiseChoice> choose_pointwise(const graph::Graph& graph, const graph::Node& node);

// Numbers for dropout in kernels (shaders/pointwise/dropout.glsl).
struct DropoutNumbers {
    uint32_t example = 1; // elements per example
    uint32_t stream = 0;
    uint32_t threshold = 0;
    float factor = 1;
};
DropoutNumbers dropout_numbers(const graph::Graph& graph, const graph::Node& node);

// A generated kernel for a group; every shape, stride and number is in the record (see pointwise_codegen.cpp).
struct GeneratedKernel {
    std::string source;
    Dispatch dispatch;         // complete
    std::vector<View> outputs; // in the order of group.outputs
};
Result<GeneratedKernel> generate_pointwise(Lowering& lowering, const PointwiseGroup& group);

} // namespace hekla::program
