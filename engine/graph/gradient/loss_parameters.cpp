#include "graph/gradient/loss_parameters.hpp"

#include "base/name_pattern.hpp"
#include "base/nearest_name.hpp"
#include "base/trimmed.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::graph {
namespace {

// Returns the patterns of a list that is separated by commas.
std::vector<std::string> patterns_of(std::string_view list) {
    std::vector<std::string> patterns;
    while (true) {
        const std::size_t comma = list.find(',');
        patterns.emplace_back(trimmed(list.substr(0, comma)));
        if (comma == std::string_view::npos) return patterns;
        list.remove_prefix(comma + 1);
    }
}

bool names_parameters(const Graph& graph, const LossTerm& loss) {
    return graph.producer(loss.sum).op == Op::for_parameters;
}

// Refuses uses of for_parameters that would not reach differentiate().
Status check_uses(const Graph& graph) {
    for (NodeId id = 0; id < graph.nodes.size(); ++id)
        for (const ValueId input : graph.nodes[id].inputs)
            if (input != kNone && graph.producer(input).op == Op::for_parameters)
                return invalid_argument(fmt::format("{} reads the result of for_parameters(\"{}\"); expected loss() "
                                                    "alone, whose sum it must be",
                                                    graph.describe(id), graph.producer(input).text("names")));
    for (const Node& node : graph.nodes)
        if (node.op == Op::for_parameters &&
            std::ranges::none_of(graph.losses, [&](const LossTerm& loss) { return loss.sum == node.outputs[0]; }))
            return invalid_argument(fmt::format("the result of for_parameters(\"{}\") is not the sum of a loss: pass "
                                                "it to loss()",
                                                node.text("names")));
    return {};
}

// Returns the parameters that a loss names and that are not frozen.
Result<ParameterNames> named(const Graph& graph, const LossTerm& loss, const ParameterNames& frozen) {
    std::vector<std::string> all;
    for (const auto& [name, value] : graph.parameters()) all.push_back(name);
    ParameterNames result;
    for (const std::string& pattern : patterns_of(graph.producer(loss.sum).text("names"))) {
        bool exists = false, trained = false;
        for (const std::string& name : all) {
            if (!matches(pattern, name)) continue;
            exists = true;
            if (frozen.contains(name)) continue;
            trained = true;
            result.insert(name);
        }
        const std::string_view near = nearest_name(pattern, all);
        if (!exists)
            return invalid_argument(fmt::format("loss '{}' names the parameters '{}', and no parameter matches{}",
                                                loss.name, pattern,
                                                near.empty() ? std::string(": `hekla inspect` lists their names")
                                                             : fmt::format("; did you mean '{}'?", near)));
        if (!trained)
            return invalid_argument(fmt::format("loss '{}' names the parameters '{}', which are all frozen, so that "
                                                "nothing learns from it: leave them out of the loss, or out of "
                                                "train.freeze",
                                                loss.name, pattern));
    }
    return result;
}

} // namespace

bool losses_name_parameters(const Graph& graph) {
    return std::ranges::any_of(graph.losses, [&](const LossTerm& loss) { return names_parameters(graph, loss); });
}

Result<std::vector<LossGroup>> loss_groups(const Graph& graph, const ParameterNames& frozen) {
    HK_TRY(check_uses(graph));
    std::vector<LossGroup> groups;
    if (!losses_name_parameters(graph)) {
        LossGroup& all = groups.emplace_back();
        for (std::size_t i = 0; i < graph.losses.size(); ++i) all.losses.push_back(i);
        return groups;
    }
    for (std::size_t i = 0; i < graph.losses.size(); ++i) {
        const LossTerm& loss = graph.losses[i];
        if (!names_parameters(graph, loss)) {
            const auto other =
                std::ranges::find_if(graph.losses, [&](const LossTerm& one) { return names_parameters(graph, one); });
            return invalid_argument(fmt::format("loss '{}' names no parameters, and loss '{}' names '{}': name those "
                                                "of every loss by for_parameters (\"*\" is all of them), or of none",
                                                loss.name, other->name, graph.producer(other->sum).text("names")));
        }
        HK_ASSIGN(ParameterNames parameters, named(graph, loss, frozen));
        const auto same = std::ranges::find(groups, parameters, &LossGroup::parameters);
        if (same != groups.end())
            same->losses.push_back(i);
        else
            groups.push_back({{i}, std::move(parameters)});
    }
    return groups;
}

} // namespace hekla::graph
