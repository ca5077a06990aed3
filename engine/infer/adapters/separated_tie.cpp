#include "infer/adapters/separated_tie.hpp"

#include "graph/graph.hpp"
#include "graph/operation.hpp"
#include "infer/adapters/adapter_folder.hpp"
#include "model/tensor.hpp"
#include "plugin/composition/composition_spec.hpp"
#include "plugin/registry/manifest.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::infer {
namespace {

constexpr const char* kTieKey = "tie_word_embeddings";

bool has_parameter(const graph::Graph& graph, const std::string& name) {
    return graph.find_leaf(graph::Op::parameter, name) != graph::kNone;
}

std::vector<graph::Op> operations(const graph::Graph& graph) {
    std::vector<graph::Op> all;
    for (const graph::Node& node : graph.nodes)
        if (node.op != graph::Op::parameter) all.push_back(node.op);
    return all;
}

} // namespace

Result<std::optional<SeparatedTie>> separated_tie(AdapterFolder& adapter, const plugin::NameRules& names,
                                                  const graph::Graph& graph, const std::string& where) {
    std::optional<SeparatedTie> separated;
    for (const auto& [alias, parameter] : names.ties) {
        const SeparatedTie tie{std::string(alias), std::string(parameter)};
        if (has_parameter(graph, tie.alias) || !has_parameter(graph, tie.parameter)) continue; // it is not tied here
        const auto of_alias = std::ranges::find(adapter.tensors, tie.alias, &model::TensorView::name),
                   of_parameter = std::ranges::find(adapter.tensors, tie.parameter, &model::TensorView::name),
                   none = adapter.tensors.end();
        if (of_alias == none && of_parameter == none) continue;
        if (of_alias != none && of_parameter != none && of_alias->dtype == of_parameter->dtype &&
            of_alias->dims == of_parameter->dims && std::ranges::equal(of_alias->bytes, of_parameter->bytes)) {
            adapter.tensors.erase(of_alias);
            continue;
        }
        if (separated)
            return cannot_separate(tie, where, fmt::format("'{}' would have to be separate as well", separated->alias));
        separated = tie;
    }
    return separated;
}

Status cannot_separate(const SeparatedTie& tie, const std::string& where, const std::string& why) {
    return unsupported(fmt::format("{}: replaces '{}' or '{}' (modules_to_save), which the model ties to each other "
                                   "and PEFT then computes with as two; {}: save both with the same values "
                                   "(ensure_weight_tying of PEFT), or neither",
                                   where, tie.alias, tie.parameter, why));
}

Status separate(const SeparatedTie& tie, const plugin::Provided& architecture, plugin::CompositionSpec& spec,
                const std::string& where) {
    if (std::ranges::find(architecture.parameters, kTieKey) == architecture.parameters.end())
        return cannot_separate(tie, where, fmt::format("the architecture '{}' has no {}", architecture.id, kTieKey));
    spec.config[kTieKey] = false;
    return {};
}

Status check_separate(const SeparatedTie& tie, const graph::Graph& tied, const graph::Graph& graph,
                      const std::string& where) {
    if (has_parameter(graph, tie.alias) && has_parameter(graph, tie.parameter) && operations(graph) == operations(tied))
        return {};
    return cannot_separate(tie, where, fmt::format("this architecture computes otherwise with {} = false", kTieKey));
}

} // namespace hekla::infer
