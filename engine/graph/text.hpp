// A graph as readable text, and back: parse(print(graph)) is the same graph.
//
//     hekla graph 1
//     ids = input(field="ids", kind=2, shape=[2, 16]) : int32 [2, 16]
//     scope block.0/attention
//     %12 = linear(%11, wte, bias) : float [2, 16, 96]  # block.0/attention
//     %13, %14, %15 = layer_norm(%12, gain) : float [2, 16, 96], float32 [2, 16], float32 [2, 16]  # block.0/norm
//     loss "lm" = 1 * %40 / %41
//     metric "accuracy" = %42 / %41
//     output "logits" = %33
//
// Inputs are in the order of the table; after an omitted one they are written name=value. Attributes with their default
// are omitted. A leaf whose name is one word is written by its name, every other value by its number. A line `scope
// PATH` opens the next scope (the second of one path is PATH~2); `recompute N` before the # is the region.
//
// A plugin's own operation, with its kernel line by line, and the graph of a use's gradient are before their first use:
//
//     operation acme.scale/1(float x, int ids; real factor = 1) -> y local 0 glsl
//     | void operation(uint i) { store_y(i, factor * load_x(i)); }
//     gradient 1
//     | hekla graph 1
//     | ...
//     %16 = acme.scale/1(%13, ids, factor=2) : float [2, 16] invocations 32 flops 32 bytes 384 gradient 1
#pragma once

#include "base/hash.hpp"
#include "graph/graph.hpp"
#include "graph/own_operation.hpp"

#include <functional>
#include <string>
#include <string_view>

namespace hekla::graph {

// Prints a graph that check() accepts. ends, if given: the offset at which each node's line ends. Lines that a node
// needs (scopes, operations, gradients) are between the line of the previous node and its own.
std::string print(const Graph& graph, std::vector<std::size_t>* ends = nullptr);

// Parses untrusted text; errors contain the line. The result has passed check(). complete: adds to a declaration what a
// text does not contain (source file of the kernel, reference).
using CompleteDeclaration = std::function<void(OwnDeclaration& declaration)>;
Result<Graph> parse(std::string_view text, const CompleteDeclaration& complete = {});

// Returns a hash that is equal for equal graphs, on every machine and in every version with the same print().
Hash128 hash(const Graph& graph);

// Returns the unique name that print() gives each scope; "" for the root.
std::vector<std::string> scope_labels(const Graph& graph);

// Returns the differences of the texts of two graphs or parts of them, in the form of base/line_difference.hpp; empty
// if they are equal. Value numbers change after an added or removed operation; this alone does not count as a
// difference unless it is the only one.
std::string text_difference(const std::string& before, const std::string& after);

// Returns the text as "[A-Za-z_][A-Za-z0-9_.-]*", or quoted with \" \\ \n \t \xHH.
std::string quote(std::string_view text);

} // namespace hekla::graph
