#include "train/step/training_graph.hpp"

#include "hekla/plugin/graph.h"

#include "graph/gradient.hpp"
#include "graph/passes/fold_cross_entropy.hpp"
#include "graph/passes/join_cross_entropy.hpp"
#include "graph/passes/simplify.hpp"

#include <algorithm>

namespace hekla::train {

Result<graph::Graph> training_graph(const graph::Graph& described, const std::set<std::string, std::less<>>& frozen,
                                    graph::Recompute also, const std::set<std::size_t>& active) {
    HK_ASSIGN(graph::Graph graph, graph::fold_cross_entropy(described, {.frozen = frozen}));
    HK_ASSIGN(graph, graph::differentiate(std::move(graph), frozen, active));
    HK_ASSIGN(graph, graph::simplify(graph));
    HK_ASSIGN(graph, graph::join_cross_entropy(graph));
    return graph::recompute(graph, also);
}

graph::Recompute recompute_of(const TrainSection& settings) {
    const auto has = [&](const char* what) { return std::ranges::count(settings.recompute, what) != 0; };
    return {has("norms"), has("activations")};
}

Result<graph::Graph> evaluation_graph(const graph::Graph& described) {
    HK_ASSIGN(const graph::Graph graph, graph::fold_cross_entropy(described));
    return graph::simplify(graph);
}

std::vector<std::string> without_decay(const graph::Graph& described) {
    std::vector<std::string> names;
    for (const graph::Node& node : described.nodes)
        if (node.op == graph::Op::parameter && (node.integer("flags") & HK_PARAMETER_NO_DECAY) != 0)
            names.push_back(node.text("name"));
    return names;
}

} // namespace hekla::train
