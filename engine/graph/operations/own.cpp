// The gradient of a plugin's own operation: the graph that the plugin described, inserted here.
#include "graph/gradient/backward.hpp"
#include "graph/gradient/own_gradient.hpp"
#include "graph/rewrite.hpp"

#include <fmt/format.h>

namespace hekla::graph {

bool own_gradient(Backward& backward) {
    const Node node = backward.node();
    if (node.op != Op::own) return false;
    Builder& b = backward.builder();
    const OwnDeclaration& d = node.own->operation->declaration();
    const Graph* rule = node.own->gradient.get();
    if (rule == nullptr) {
        b.fail(unsupported(fmt::format("{} has no gradient, and something before it learns: give the operation a "
                                       "gradient, or put stop_gradient before it",
                                       d.name)));
        return true;
    }
    std::map<std::string, ValueId, std::less<>> leaves;
    for (std::size_t i = 0; i < d.inputs.size(); ++i) leaves[kOwnInput + d.inputs[i].name] = node.inputs[i];
    for (std::size_t i = 0; i < d.outputs.size(); ++i) {
        const ValueId y = node.outputs[i];
        leaves[kOwnOutput + d.outputs[i]] = y;
        if (!is_float(backward.kind(y))) continue;
        const ValueId dy = backward.dy(i);
        leaves[kOwnOutputGradient + d.outputs[i]] =
            dy != kNone ? dy : b.fill(backward.kind(y), backward.shape(y), 0.0); // not used by any loss
    }
    std::vector<ValueId> now(rule->values.size(), kNone);
    for (NodeId id = 0; id < rule->nodes.size() && b.ok(); ++id) {
        Node copy = rule->nodes[id];
        if (copy.op == Op::input) {
            now[copy.outputs[0]] = leaves.at(copy.text("field"));
            continue;
        }
        for (ValueId& input : copy.inputs) input = now[input];
        std::vector<ValueId> outputs;
        copy_node(b, copy, outputs);
        for (std::size_t i = 0; i < outputs.size(); ++i) now[rule->nodes[id].outputs[i]] = outputs[i];
    }
    for (std::size_t i = 0; i < d.inputs.size() && b.ok(); ++i) {
        const auto given = rule->outputs.find(kOwnInputGradient + d.inputs[i].name);
        if (given != rule->outputs.end()) backward.give(i, now[given->second]);
    }
    return true;
}

} // namespace hekla::graph
