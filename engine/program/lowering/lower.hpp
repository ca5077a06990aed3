// Lowers a graph to a list of dispatches, without a device. Shape operations become views; every other operation is
// lowered by its family, which appends dispatches and sets the views of the node's outputs.
#pragma once

#include "program/lowering/lowering.hpp"

#include <string>

namespace hekla::program {

// The error names the first operation that cannot be lowered, and its scope. `graph` must outlive the use of the
// result.
Result<Lowering> lower(const graph::Graph& graph, const Limits& limits, const CompileOptions& options = {});

} // namespace hekla::program
