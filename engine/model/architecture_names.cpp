#include "model/architecture_names.hpp"

namespace hekla::model {

NameRules name_rules(const plugin::NameRules& manifest) {
    NameRules rules;
    for (const auto& [from, to] : manifest.renames) rules.renames.push_back({Rename::Where::suffix, from, to});
    if (!manifest.prefix.empty()) rules.optional_prefixes.push_back(manifest.prefix);
    rules.ignorable = manifest.ignore;
    for (const auto& [alias, parameter] : manifest.ties) rules.ties.push_back({alias, parameter});
    return rules;
}

std::vector<ParameterSpec> parameter_specs(const graph::Graph& graph) {
    std::vector<ParameterSpec> specs;
    for (const auto& [name, value] : graph.parameters()) {
        ParameterSpec spec;
        spec.name = name;
        spec.dtype = DType::f32;
        spec.dims = graph.shape(value).vector();
        specs.push_back(std::move(spec));
    }
    return specs;
}

} // namespace hekla::model
