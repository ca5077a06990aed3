#include "plugin/composition/model_names.hpp"

#include "base/name_pattern.hpp"

#include <algorithm>

namespace hekla::plugin {

model::NameRules model_rules(const NameRules& manifest, bool body) {
    model::NameRules rules;
    for (const auto& [from, to] : manifest.renames) // a beginning ends with a dot
        rules.renames.push_back({from.ends_with('.') ? model::Rename::Where::prefix : model::Rename::Where::suffix,
                                 std::string(from), std::string(to)});
    if (!manifest.prefix.empty()) rules.optional_prefixes.emplace_back(manifest.prefix);
    rules.ignorable.assign(manifest.ignore.begin(), manifest.ignore.end());
    rules.stacks.assign(manifest.stacks.begin(), manifest.stacks.end());
    for (const auto& [alias, parameter] : manifest.ties) {
        const std::string_view name = alias;
        const bool ignorable = std::ranges::any_of(
            manifest.ignore, [&](std::string_view pattern) { return hekla::matches(pattern, name); });
        if (!body || !ignorable) rules.ties.push_back({std::string(alias), std::string(parameter)});
    }
    return rules;
}

std::vector<ModelTensor> model_tensors(const graph::Graph& graph) {
    std::vector<ModelTensor> tensors;
    for (const bool buffer : {false, true})
        for (graph::NodeId id = 0; id < graph.nodes.size(); ++id) {
            const graph::Node& node = graph.nodes[id];
            if (node.op != (buffer ? graph::Op::buffer : graph::Op::parameter)) continue;
            const graph::ValueId value = node.outputs[0];
            tensors.push_back({node.text("name"), id, buffer, graph.kind(value), graph.shape(value)});
        }
    return tensors;
}

std::vector<double> described_values(const graph::Graph& graph, const ModelTensor& buffer) {
    std::vector<double> values = graph.nodes[buffer.leaf].reals("value");
    values.resize(static_cast<std::size_t>(buffer.shape.elements()));
    return values;
}

Result<FoundTensors> find_some_tensors(const graph::Graph& graph, std::span<const model::TensorView> stored,
                                       const std::string& where, model::NameRules rules,
                                       const std::function<bool(const std::string&)>& takes) {
    std::vector<ModelTensor> wanted = model_tensors(graph);
    std::erase_if(wanted, [&](const ModelTensor& tensor) {
        if (takes(tensor.name)) return false;
        std::erase_if(rules.ties, [&](const auto& tie) { return tie.alias == tensor.name; }); // it is not tied
        return true;
    });
    std::vector<model::ParameterSpec> specs;
    for (const ModelTensor& tensor : wanted) {
        if (tensor.buffer) rules.may_be_missing.push_back(tensor.name);
        specs.push_back({tensor.name, tensor.kind == graph::Kind::int32 ? model::DType::i32 : model::DType::f32,
                         tensor.shape.vector()});
    }
    HK_ASSIGN(model::Resolution resolved, model::resolve_names(specs, stored, rules, where));
    FoundTensors found;
    found.ignored = std::move(resolved.ignored);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        const model::TensorView* tensor = resolved.tensors[i];
        if (tensor == nullptr) continue;
        const auto stack = std::ranges::find(resolved.stacked, tensor, [](const auto& one) { return one.get(); });
        found.tensors.push_back({wanted[i], tensor, stack != resolved.stacked.end() ? *stack : nullptr});
    }
    return found;
}

Result<std::vector<StoredTensor>> find_tensors(const graph::Graph& graph, const model::Weights& weights,
                                               const model::NameRules& rules, std::vector<std::string>* ignored) {
    HK_ASSIGN(FoundTensors found, find_some_tensors(graph, weights.tensors(), weights.path().string(), rules,
                                                    [](const std::string&) { return true; }));
    if (ignored != nullptr) *ignored = std::move(found.ignored);
    return std::move(found.tensors);
}

} // namespace hekla::plugin
