// The gradient of a plugin's own operation: a graph that belongs to one use (OwnUse::gradient). Its leaves are inputs
// "x.NAME", "y.NAME", "dy.NAME" of the operation's inputs, outputs and their gradients; its outputs are "dx.NAME" of
// the inputs with a gradient.
#pragma once

#include "graph/graph.hpp"
#include "graph/own_operation.hpp"

namespace hekla::graph {

inline constexpr const char* kOwnInput = "x.";
inline constexpr const char* kOwnOutput = "y.";
inline constexpr const char* kOwnOutputGradient = "dy.";
inline constexpr const char* kOwnInputGradient = "dx.";

// Checks that a graph can be the gradient of this use: its leaves and outputs are those above, with matching kinds and
// shapes, and it has no other leaves, random numbers or state.
Status check_own_gradient(const OwnUse& use, const Graph& gradient);

} // namespace hekla::graph
