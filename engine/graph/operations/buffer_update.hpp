// Buffers that a training step writes. An update is an output of the graph under a reserved name; a training adds it up
// over the micro-batches of a step, and writes the mean with the parameters' update.
#pragma once

#include "graph/graph.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hekla::graph {

struct BufferUpdate {
    std::string buffer; // its name
    std::string output; // of the graph
    Shape shape;
};

// Returns the updates of a graph, by name.
std::vector<BufferUpdate> buffer_updates(const Graph& graph);

} // namespace hekla::graph
