// Sites: the places of a body or head where an adapter acts (hk_site). The host finds them while plugins describe, so
// an architecture does nothing for them.
#pragma once

#include "graph/builder.hpp"
#include "plugin/manifest.hpp"

#include "hekla/plugin/draft/adapter.h"

#include <optional>
#include <string>

namespace hekla::plugin {

struct Site {
    int32_t kind = HK_SITE_LINEAR;
    std::string name, parameter, bias; // bias: the parameter, "" if there is none
    int64_t in = 0, out = 0;
    bool input_first = false; // the parameter is W^T, as GPT-2's
    bool of_head = false;
    bool wanted = false; // the adapter acts here
};

// Returns the site of the node that made y; nothing if it is not a linear layer or an embedding, or if its weight is
// not a parameter (or a parameter reshaped and transposed). ties: those of the architecture's manifest; a linear layer
// with a tied weight is named by the alias.
std::optional<Site> site_of(const graph::Graph& graph, graph::ValueId y, TextPairs ties);

// The weight of a site as hk_site_values has it, and back: a value of that shape as the parameter has it.
graph::ValueId site_weight(graph::Builder& builder, const Site& site, graph::ValueId y);
graph::ValueId as_parameter(graph::Builder& builder, const Site& site, graph::ValueId y, graph::ValueId weight);

} // namespace hekla::plugin
