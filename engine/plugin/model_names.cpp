#include "plugin/model_names.hpp"

namespace hekla::plugin {

model::NameRules name_rules(const NameRules& manifest) {
    model::NameRules rules;
    for (const auto& [from, to] : manifest.renames) rules.renames.push_back({model::Rename::Where::suffix, from, to});
    if (!manifest.prefix.empty()) rules.optional_prefixes.push_back(manifest.prefix);
    rules.ignorable = manifest.ignore;
    for (const auto& [alias, parameter] : manifest.ties) rules.ties.push_back({alias, parameter});
    return rules;
}

std::vector<model::ParameterSpec> parameter_specs(const graph::Graph& graph) {
    std::vector<model::ParameterSpec> specs;
    for (const auto& [name, value] : graph.parameters()) {
        model::ParameterSpec spec;
        spec.name = name;
        spec.dtype = model::DType::f32;
        spec.dims = graph.shape(value).vector();
        specs.push_back(std::move(spec));
    }
    return specs;
}

} // namespace hekla::plugin
