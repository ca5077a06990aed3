// Operations fused into another's kernel before its result is stored, instead of a separate dispatch: an activation, or
// the sum with a residual, into a linear; the sum with another gradient into the gradient of a norm. When tokens are
// generated one at a time, dispatches take most of the time. The gradient of an embedding is added to another gradient
// of the same table in place.
#pragma once

#include "program/lowering/pointwise.hpp"
#include "program/lowering/records.hpp"

#include <map>
#include <set>
#include <vector>

namespace hekla::program {

enum class Activation : uint32_t {
    none = kernels::matmul::kActivationNone,
    relu = kernels::matmul::kActivationRelu,
    gelu_tanh = kernels::matmul::kActivationGeluTanh,
    gelu = kernels::matmul::kActivationGelu,
    gelu_tanh_gradient = kernels::matmul::kActivationGeluTanhGradient, // these two of FusedEpilogue::argument
    gelu_gradient = kernels::matmul::kActivationGeluGradient,
};

struct FusedEpilogue {
    graph::NodeId node = 0;               // the linear, or the gradient of a norm or of an embedding
    graph::ValueId output = graph::kNone; // stored instead of the node's first result
    Activation activation = Activation::none;
    graph::ValueId residual = graph::kNone; // of the output's shape, computed before the operation that adds it
    graph::ValueId argument = graph::kNone; // of the output's shape and storage
    // The activation of the argument, which only gradients read from here on: stored again from here, so that memory
    // holds one of the two until then.
    graph::ValueId recomputed = graph::kNone;
    bool stores_before = false; // the linear's own result is stored too, for others that read it
};

class FusedEpilogues {
public:
    // end: the fused operation. Lowered at its position, or at that of the node.
    void add(graph::NodeId end, const FusedEpilogue& epilogue, bool at_node);
    // Both are lowered at the position of the fused operation, or, where all inputs are computed before it, of the
    // node.
    const FusedEpilogue* lowered_at(graph::NodeId node) const; // null: none is
    graph::NodeId position_of(graph::NodeId node) const;       // where the node is lowered: its own unless it is fused
    bool inside(graph::NodeId node) const { return nodes_.contains(node); }
    void computes(graph::NodeId node) { nodes_.insert(node); } // with another node, before its position

private:
    std::map<graph::NodeId, FusedEpilogue> positions_;
    std::set<graph::NodeId> nodes_; // of all kinds
};

// Finds nodes whose result is read once, or first, by a pointwise operation outside of all groups; none if `groups` is
// empty because fusion is off. `kept` as in group_pointwise().
FusedEpilogues find_epilogues(const Lowering& lowering, const std::vector<graph::ValueId>& kept,
                              const PointwiseGroups& groups);

// Lowers the node with the fused operation, and sets the views of `output` and of the node's other results.
void lower_linear(Lowering& lowering, const FusedEpilogue& epilogue);             // matmul.cpp
void lower_norm_gradient(Lowering& lowering, const FusedEpilogue& epilogue);      // norm.cpp
void lower_embedding_gradient(Lowering& lowering, const FusedEpilogue& epilogue); // embedding.cpp

} // namespace hekla::program
