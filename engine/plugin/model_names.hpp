// From what an architecture's manifest says of names to the rules that weights are resolved by.
#pragma once

#include "model/names.hpp"
#include "plugin/manifest.hpp"

#include "graph/graph.hpp"

namespace hekla::plugin {

model::NameRules name_rules(const NameRules& manifest);

// The parameters and buffers of a graph as specs to be resolved (floating, with their shapes).
std::vector<model::ParameterSpec> parameter_specs(const graph::Graph& graph);

} // namespace hekla::plugin
