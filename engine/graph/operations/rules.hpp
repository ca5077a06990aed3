// The rules of operations, in one table: what the engine has to know of an operation of operation_table.inc besides its
// description. The rows are at the end of the family's file in this folder. An operation without one is an error of the
// linker.
#pragma once

#include "graph/graph.hpp"

namespace hekla::graph {

class Backward;
class Builder;
struct Call;
struct Rule;

struct OperationRules {
    // Returns kinds and shapes of the outputs; the error contains the shapes that do not fit.
    Result<std::vector<std::pair<Kind, Shape>>> (*outputs)(const Rule& rule) = nullptr;
    // Adds to the gradients of the inputs. Called if an output has a gradient and an input needs one. no_gradient: the
    // outputs do not depend on the inputs smoothly, and gradients end here. null: an error.
    void (*gradient)(Backward& backward) = nullptr;
    // Computes the outputs in double precision (reference.hpp). null: a finished graph does not have the operation, or
    // evaluate() gets the value.
    Status (*reference)(const Call& call) = nullptr;
    // Emits the operations that this one is made of, and returns its outputs. null: it is added to the graph itself.
    std::vector<ValueId> (*expand)(Builder& builder, const Node& node) = nullptr;
};

const OperationRules& rules_of(Op op);

void no_gradient(Backward& backward);

#define HK_OPERATION(name) extern const OperationRules name##_rules;
#include "graph/operation_table.inc"

} // namespace hekla::graph
