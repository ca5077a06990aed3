// with_gradient: a value whose gradient a plugin describes itself, for the operations that computed it.
#pragma once

#include "graph/gradient/backward.hpp"
#include "graph/operations/shape_rule.hpp"

namespace hekla::graph {

// The shape rules of incoming_gradient and with_gradient.
Result<Outputs> given_gradient_outputs(const Rule& rule);

// The rule of with_gradient; false for other operations.
bool given_gradient(Backward& backward);

} // namespace hekla::graph
