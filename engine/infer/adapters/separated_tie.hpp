// Adapters of PEFT that replace one of two tied parameters. PEFT gives a module that it saves whole weights of its own,
// also where the model ties them to another module's: then the two have different values, and the model is as if it had
// never tied them.
#pragma once

#include "base/status.hpp"

#include <optional>
#include <string>

namespace hekla::graph {
struct Graph;
}
namespace hekla::plugin {
struct CompositionSpec;
struct NameRules;
struct Provided;
} // namespace hekla::plugin

namespace hekla::infer {

struct AdapterFolder;

struct SeparatedTie {
    std::string alias;     // "lm_head.weight"
    std::string parameter; // "model.embed_tokens.weight"
};

// Returns the tied parameters of the model to which the adapter gives different values, or a value for only one.
// Removes the tensors of aliases whose values are those of their parameters. graph: of the model. Error: unsupported:
// several of them.
Result<std::optional<SeparatedTie>> separated_tie(AdapterFolder& adapter, const plugin::NameRules& names,
                                                  const graph::Graph& graph, const std::string& where);

// Returns the error of an adapter that needs them apart where that is not possible.
Status cannot_separate(const SeparatedTie& tie, const std::string& where, const std::string& why);

// Changes the configuration of the architecture so that it does not tie them. Check its graph by check_separate().
Status separate(const SeparatedTie& tie, const plugin::Provided& architecture, plugin::CompositionSpec& spec,
                const std::string& where);
// Checks that the graph has both parameters, and is otherwise that of the model that ties them.
Status check_separate(const SeparatedTie& tie, const graph::Graph& tied, const graph::Graph& graph,
                      const std::string& where);

} // namespace hekla::infer
