// The outputs of a graph that mean something to the engine. They have reserved names, because graphs, their texts and
// programs have outputs by name; no other file makes or reads such a name.
#pragma once

#include "graph/graph.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hekla::graph {

enum class OutputKind {
    loss_sum, // of a loss, by its number; these two exist for Graph::losses also where the graph has no such output
    loss_count,
    metric_sum, // of a metric, by its name; the same
    metric_count,
    gradient,      // of a parameter, by its name
    port,          // of a network that is described with all ports, by its name
    tap,           // a value that a graph names for people, by that name
    buffer_update, // what a training step writes, by the buffer's name
};

// The total of a step: each loss times its weight and scale, summed.
inline constexpr const char* kLossOutput = "loss";

// Returns the name of an output: "grad.wte.weight", "loss_sum.0". of: the name or the number.
std::string output_name(OutputKind kind, std::string_view of);
std::string output_name(OutputKind kind, std::size_t of);

// Returns what an output of this kind belongs to, "wte.weight"; nothing for a name of another kind.
std::optional<std::string_view> output_of(OutputKind kind, std::string_view name);

// Returns the outputs of a kind by what they belong to, in the order of their names.
std::vector<std::pair<std::string, ValueId>> outputs_of(const Graph& graph, OutputKind kind);

} // namespace hekla::graph
