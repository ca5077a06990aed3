#include "graph/operations/shape_rule.hpp"

#include "graph/operations/rules.hpp"

namespace hekla::graph {

Result<Outputs> infer_outputs(const Graph& graph, const Node& node) {
    const Rule r{graph, node};
    if ((node.op == Op::own) != (node.own != nullptr))
        return internal_error("an operation of a plugin's own without its description");
    const OperationInfo& o = info(node);
    const bool variadic = !o.inputs.empty() && o.inputs[0].variadic;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (!r.has(i)) continue;
        const InputInfo& in = o.inputs[variadic ? 0 : i];
        const bool wrong = (in.kind == InputKind::integer && is_float(r.kind(i))) ||
                           (in.kind == InputKind::floating && !is_float(r.kind(i)));
        if (wrong)
            return r.error("{} is {}, expected {}", in.name, kind_name(r.kind(i)),
                           in.kind == InputKind::integer ? "int32" : "float (use cast)");
    }
    const auto rule = rules_of(node.op).outputs;
    return rule != nullptr ? rule(r) : internal_error(fmt::format("{} has no shape rule", o.name));
}

} // namespace hekla::graph
