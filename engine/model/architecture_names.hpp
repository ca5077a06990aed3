// From what an architecture's manifest says of names to the rules that weights are resolved by.
#pragma once

#include "model/names.hpp"
#include "plugin/manifest.hpp"

#include "graph/graph.hpp"

namespace hekla::model {

NameRules name_rules(const plugin::NameRules& manifest);

// The parameters and buffers of a graph as specs to be resolved (floating, with their shapes).
std::vector<ParameterSpec> parameter_specs(const graph::Graph& graph);

} // namespace hekla::model
