// Loops over the steps of a sequence (loop_index, loop_step, loop_state, loop_next, loop_collect). A finished graph has
// none: their bodies are copied once for each step, so that gradients, decoding and kernels need no rules for them.
#pragma once

#include "graph/operation.hpp"

namespace hekla::graph {

bool is_loop_operation(Op op);

} // namespace hekla::graph
