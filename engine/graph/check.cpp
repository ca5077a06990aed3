#include "graph/check.hpp"

#include "graph/builder.hpp"
#include "graph/gradient/own_gradient.hpp"
#include "graph/graph.hpp"
#include "graph/operations/loop.hpp"

#include <cstring>
#include <fmt/format.h>
#include <map>
#include <string>
#include <vector>

namespace hekla::graph {

Status check(const Graph& graph) {
    const auto bad = [&](NodeId id, const std::string& what) {
        return invalid_argument(fmt::format("node {} ({}): {}", id, graph.describe(id), what));
    };
    if (graph.values.empty() || graph.scopes.empty()) return invalid_argument("a graph needs its value 0 and scope 0");
    for (std::size_t i = 1; i < graph.scopes.size(); ++i)
        if (graph.scopes[i].parent >= i) return invalid_argument(fmt::format("scope {} precedes its parent", i));
    std::vector<bool> made(graph.values.size(), false);
    std::map<std::string, const OwnOperation*> operations;
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
        const Node& node = graph.nodes[id];
        if (static_cast<std::size_t>(node.op) >= operation_table().size())
            return invalid_argument(fmt::format("node {}: unknown operation number", id));
        if ((node.op == Op::own) != (node.own != nullptr))
            return invalid_argument(fmt::format("node {}: an operation of a plugin's own without its description", id));
        const OperationInfo& o = info(node);
        if (node.own != nullptr) {
            const OwnOperation& own = *node.own->operation;
            const auto [known, fresh] = operations.try_emplace(own.label(), &own);
            if (!fresh && known->second != &own && !known->second->same(own))
                return bad(id, fmt::format("there are two different operations {}", own.label()));
            HK_TRY(check_own_use(*node.own));
            if (node.own->gradient != nullptr) {
                HK_TRY(check(*node.own->gradient));
                HK_TRY(check_own_gradient(*node.own, *node.own->gradient));
            }
        }
        if (node.scope >= graph.scopes.size()) return invalid_argument(fmt::format("node {}: unknown scope", id));
        const bool variadic = !o.inputs.empty() && o.inputs[0].variadic;
        if (variadic ? node.inputs.empty() : node.inputs.size() != o.inputs.size())
            return bad(id, "wrong number of inputs");
        for (std::size_t i = 0; i < node.inputs.size(); ++i) {
            const ValueId input = node.inputs[i];
            if (input >= graph.values.size()) return bad(id, fmt::format("input {} does not exist", i));
            if (input == kNone) {
                if (variadic || !o.inputs[i].optional) return bad(id, fmt::format("input {} is missing", i));
            } else if (!made[input]) {
                return bad(id, fmt::format("input {} is read before it is made", i));
            }
        }
        if (node.attributes.size() != o.attributes.size()) return bad(id, "wrong number of attributes");
        for (std::size_t i = 0; i < node.attributes.size(); ++i) {
            if (std::strcmp(node.attributes[i].name, o.attributes[i].name) != 0 ||
                node.attributes[i].value.index() != static_cast<std::size_t>(o.attributes[i].type))
                return bad(id, fmt::format("attribute {} is not {}", i, o.attributes[i].name));
        }
        if (is_expanded(node.op) || is_loop_operation(node.op))
            return bad(id, "only a builder adds this operation: it becomes others");
        Result<std::vector<std::pair<Kind, Shape>>> inferred = infer_outputs(graph, node);
        if (!inferred.ok()) return inferred.status();
        if (node.outputs.size() != inferred.value().size()) return bad(id, "wrong number of outputs");
        for (std::size_t i = 0; i < node.outputs.size(); ++i) {
            const ValueId output = node.outputs[i];
            if (output == kNone || output >= graph.values.size() || made[output])
                return bad(id, fmt::format("output {} is not a new value", i));
            const Value& value = graph.values[output];
            if (value.node != id || value.output != i) return bad(id, fmt::format("output {} names another node", i));
            if (value.kind != inferred.value()[i].first || !(value.shape == inferred.value()[i].second))
                return bad(id, fmt::format("output {} is {} {}, by the inputs it is {} {}", i, kind_name(value.kind),
                                           value.shape.text(), kind_name(inferred.value()[i].first),
                                           inferred.value()[i].second.text()));
            made[output] = true;
        }
    }
    const auto exists = [&](ValueId id) { return id != kNone && id < made.size() && made[id]; };
    for (const auto& [name, value] : graph.outputs)
        if (!exists(value)) return invalid_argument(fmt::format("output '{}' does not exist", name));
    for (const LossTerm& loss : graph.losses)
        if (!exists(loss.sum) || !exists(loss.count))
            return invalid_argument(fmt::format("loss '{}' does not exist", loss.name));
    for (const Metric& metric : graph.metrics)
        if (!exists(metric.sum) || !exists(metric.count))
            return invalid_argument(fmt::format("metric '{}' does not exist", metric.name));
    return {};
}

} // namespace hekla::graph
