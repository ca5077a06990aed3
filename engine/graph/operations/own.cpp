// Plugins' own operations: the rules are what the plugin declared for a use.
#include "graph/gradient/backward.hpp"
#include "graph/gradient/own_gradient.hpp"
#include "graph/operations/rules.hpp"
#include "graph/operations/shape_rule.hpp"
#include "graph/reference/call.hpp"
#include "graph/rewrite.hpp"

#include <fmt/format.h>

namespace hekla::graph {
namespace {

// Returns the outputs that the plugin declared for this use.
Result<Outputs> own_outputs(const Rule& r) {
    const OwnUse& use = *r.node.own;
    for (std::size_t i = 0; i < r.node.inputs.size(); ++i)
        if (!(r.shape(i) == use.inputs[i]))
            return r.error("{} is {}, and this use was described for {}", r.input_name(i), r.text(i),
                           use.inputs[i].text());
    return use.outputs;
}

void own_gradient(Backward& backward) {
    const Node node = backward.node();
    Builder& b = backward.builder();
    const OwnDeclaration& d = node.own->operation->declaration();
    const Graph* rule = node.own->gradient.get();
    if (rule == nullptr) {
        b.fail(unsupported(fmt::format("{} has no gradient, and something before it learns: give the operation a "
                                       "gradient, or put stop_gradient before it",
                                       d.name)));
        return;
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
}

Status run_own(const Call& call) {
    const OwnDeclaration& d = call.node.own->operation->declaration();
    if (!d.reference)
        return unsupported(
            fmt::format("{} is of a plugin's own, and this graph was read from text: the interpreter needs "
                        "it described by its plugin",
                        d.name));
    HK_TRY(d.reference(call.inputs, call.node.attributes, call.outputs));
    for (std::size_t i = 0; i < call.outputs.size(); ++i)
        if (call.out(i).data.size() != at(call.out(i).shape.elements()))
            return internal_error(fmt::format("the reference of {} changed the size of '{}'", d.name, d.outputs[i]));
    return {};
}

} // namespace

const OperationRules own_rules{own_outputs, own_gradient, run_own};

} // namespace hekla::graph
