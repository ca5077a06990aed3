#include "train/training_graph.hpp"

#include "graph/gradient.hpp"
#include "graph/recompute.hpp"
#include "graph/simplify.hpp"

namespace hekla::train {

Result<graph::Graph> training_graph(const graph::Graph& described) {
    HK_ASSIGN(graph::Graph graph, graph::differentiate(described));
    HK_ASSIGN(graph, graph::simplify(graph));
    return graph::recompute(graph);
}

} // namespace hekla::train
