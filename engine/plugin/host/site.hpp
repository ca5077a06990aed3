// Sites: the places of a body or head where an adapter acts (hk_adapter_site). The host finds them while plugins
// describe, so an architecture does nothing for them.
#pragma once

#include "graph/builder.hpp"
#include "plugin/registry/manifest.hpp"

#include "hekla/plugin/adapter.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hekla::plugin {

struct Site {
    int32_t kind = HK_SITE_LINEAR;
    std::string name, parameter, bias; // bias: the parameter, "" if there is none
    int64_t in = 0, out = 0;
    int64_t index = 0;        // of attention
    uint32_t flags = 0;       // HK_SITE_OF_HEAD...
    uint32_t trained = 0;     // HK_TRAINS_WEIGHT, HK_TRAINS_BIAS
    bool input_first = false; // the parameter is W^T, as GPT-2's
    bool wanted = false;      // the adapter acts here

    bool of_head() const { return (flags & HK_SITE_OF_HEAD) != 0; }
    // Its own parameters that are trained with the adapter.
    std::vector<std::string> trained_parameters() const;
    bool trains(const std::string& name) const;
    bool of_tokens() const { return (flags & HK_SITE_OF_TOKENS) != 0; } // a table may also embed a decoder's tokens
};

// Returns "linear", "embedding", "norm", "residual" or "attention".
const char* site_kind_name(int32_t kind);

// Returns the site of the node that made y; nothing if it is not a linear layer, an embedding or a norm, or if its
// weight is not a parameter (or a parameter reshaped and transposed). ties: those of the architecture's manifest; a
// linear layer with a tied weight is named by the alias.
std::optional<Site> site_of(const graph::Graph& graph, graph::ValueId y, TextPairs ties);

// The weight of a site as hk_site_values has it, and back: a value of that shape as the parameter has it.
graph::ValueId site_weight(graph::Builder& builder, const Site& site, graph::ValueId y);
graph::ValueId as_parameter(graph::Builder& builder, const Site& site, graph::ValueId y, graph::ValueId weight);
// The bias of a site, or kNone.
graph::ValueId site_bias(const graph::Graph& graph, const Site& site, graph::ValueId y);
// Returns what the layer that made y computes with another weight, of the shape that hk_site_values has, and bias.
graph::ValueId layer_with(graph::Builder& builder, const Site& site, graph::ValueId y, graph::ValueId weight,
                          graph::ValueId bias);
// Emits an operation again, with other inputs. Returns its first output, kNone after an error.
graph::ValueId emit_again(graph::Builder& builder, const graph::Node& node, const std::vector<graph::ValueId>& inputs);

// Returns whether the value is computed from parameters, buffers and constants, without random numbers.
bool depends_on_parameters_alone(const graph::Graph& graph, graph::ValueId value);

// Finds residual sites, one addition after the other.
class ResidualFinder {
public:
    struct Found {
        Site site;
        graph::ValueId stream = graph::kNone, part = graph::kNone; // the two that are added
        bool norm_follows = false; // the block's norm comes after the addition (BERT), not before the part (GPT-2)
    };
    // A value was replaced by the adapter's answer.
    void replaced(graph::ValueId before, graph::ValueId after) { before_[after] = before; }
    // Returns the residual site of an addition; nothing if it is none.
    std::optional<Found> find(const graph::Graph& graph, graph::ValueId sum, TextPairs ties);

private:
    graph::ValueId before(graph::ValueId value) const;
    std::map<graph::ValueId, graph::ValueId> before_;
    std::map<graph::ValueId, graph::ValueId> streams_; // a sum -> the stream that it was added to, of parallel parts
};

} // namespace hekla::plugin
