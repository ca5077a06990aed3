// A picture of a graph: nodes in layers from top to bottom, scopes as boxes, operations colored by family.
#pragma once

#include "graph/graph.hpp"

#include <string>
#include <string_view>

namespace hekla::drawing {

struct SvgOptions {
    std::string title;
    // A value read more than this many nodes after it was computed is named in its reader instead of drawn as a line
    // (saved activations of a gradient would cover the page).
    std::size_t longest_line = 60;
};

// Returns a self-contained SVG document. Parameters, constants and numbers are written into the nodes that read them;
// the tooltip of a node is its line of print(). Meant for graphs of up to some thousands of nodes.
std::string svg(const graph::Graph& graph, const SvgOptions& options = {});

} // namespace hekla::drawing
