#include "graph/gradient/own_gradient.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace hekla::graph {

Status check_own_gradient(const OwnUse& use, const Graph& gradient) {
    const OwnDeclaration& d = use.operation->declaration();
    const auto refuse = [&](const std::string& what) {
        return invalid_argument(fmt::format("the gradient of {}: {}", d.name, what));
    };
    if (!gradient.losses.empty() || !gradient.metrics.empty()) return refuse("it has a loss or a metric");
    std::map<std::string, std::pair<bool, Shape>, std::less<>> leaves; // whether it is floating, shape
    for (std::size_t i = 0; i < d.inputs.size(); ++i)
        leaves[kOwnInput + d.inputs[i].name] = {!d.inputs[i].integer, use.inputs[i]};
    for (std::size_t i = 0; i < d.outputs.size(); ++i) {
        const auto& [kind, shape] = use.outputs[i];
        leaves[kOwnOutput + d.outputs[i]] = {is_float(kind), shape};
        if (is_float(kind)) leaves[kOwnOutputGradient + d.outputs[i]] = {true, shape};
    }
    for (NodeId id = 0; id < gradient.nodes.size(); ++id) {
        const Node& node = gradient.nodes[id];
        const auto refuse_use = [&] {
            return refuse(
                fmt::format("it must not use {}: it is computed from inputs, outputs and their gradients alone",
                            gradient.describe(id)));
        };
        if (node.op != Op::attention && is_random(node)) return refuse_use();
        switch (node.op) {
        case Op::input: {
            const auto leaf = leaves.find(node.text("field"));
            if (leaf == leaves.end()) return refuse(fmt::format("it reads the field '{}'", node.text("field")));
            const Value& value = gradient.value(node.outputs[0]);
            if (is_float(value.kind) != leaf->second.first || !(value.shape == leaf->second.second))
                return refuse(fmt::format("'{}' is {} {}", leaf->first, kind_name(value.kind), value.shape.text()));
            break;
        }
        case Op::parameter:
        case Op::buffer:
        case Op::step_scalar:
        case Op::positions:
        case Op::once:
        case Op::state_read:
        case Op::state_write:
        case Op::for_parameters:
        case Op::tap:
        case Op::site:
        case Op::attention_cached: return refuse_use();
        case Op::attention:
            if (node.real("dropout") > 0) return refuse("its attention must not have dropout");
            break;
        default: break;
        }
        if (node.own != nullptr && node.own->gradient != nullptr)
            return refuse(fmt::format("{} in it has a gradient of its own", gradient.describe(id)));
    }
    for (const auto& [name, value] : gradient.outputs) {
        const auto input = std::ranges::find_if(
            d.inputs, [&name = name](const auto& in) { return kOwnInputGradient + in.name == name; });
        if (input == d.inputs.end() || input->integer) return refuse(fmt::format("there is no input for '{}'", name));
        const Shape& expected = use.inputs[static_cast<std::size_t>(input - d.inputs.begin())];
        if (!is_float(gradient.kind(value)) || !(gradient.shape(value) == expected))
            return refuse(fmt::format("for '{}' it gives {} {}, expected float {}", input->name,
                                      kind_name(gradient.kind(value)), gradient.shape(value).text(), expected.text()));
    }
    return {};
}

} // namespace hekla::graph
