// A graph as text that reads like the mathematics, and back: parse(print(graph)) is the same graph.
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
// Inputs stand in the table's order; after one that is left out they are written name=value. Attributes that have the
// table's default are left out. A leaf with a name that is one word is called by it, every other value by its number. A
// line `scope PATH` opens the next scope (the second of one path is PATH~2); `recompute N` before the # is the region.
//
// A plugin's own operation stands before its first use, with its kernel line by line, and so does the graph of a use's
// gradient:
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

// The graph is one that check() accepts. ends, if given: where in the text each node's line ends; what a node needs to
// have been introduced (scopes, operations, gradients) stands before its line, behind the last one's.
std::string print(const Graph& graph, std::vector<std::size_t>* ends = nullptr);

// Any text: what is no graph is an error with its line. The result has passed check(). complete: adds to a declaration
// what no text has (where the kernel's source stands, the reference).
using CompleteDeclaration = std::function<void(OwnDeclaration& declaration)>;
Result<Graph> parse(std::string_view text, const CompleteDeclaration& complete = {});

// The same for the same graph on every machine and in every version that prints it alike.
Hash128 hash(const Graph& graph);

// The name that print() gives each scope: unique, "" for the root.
std::vector<std::string> scope_labels(const Graph& graph);

// Where two graphs' texts, or parts of them, differ, as base/line_difference.hpp has it; empty where they are the same.
// Values are numbered otherwise behind an operation that came or went: that alone is no difference, unless there is no
// other.
std::string text_difference(const std::string& before, const std::string& after);

// "[A-Za-z_][A-Za-z0-9_.-]*", or quoted with \" \\ \n \t \xHH.
std::string quote(std::string_view text);

} // namespace hekla::graph
