// The model whose body an adapter was trained with: its folder stands in the adapter's config.json, under "hekla".
#pragma once

#include "model/folder.hpp"
#include "plugin/model_names.hpp"

#include <nlohmann/json.hpp>
#include <optional>

namespace hekla::infer {

// {"folder", "weights"}: where the model of `folder` lies, and the hash of its weights, by which it is known again.
Result<nlohmann::ordered_json> base_of(const std::filesystem::path& folder);

// The folder that the config.json of the model at `path` names; none where it names none. A relative one is beside it.
// Errors: it is not there; it holds other weights than those that the adapter was trained with.
Result<std::optional<model::ModelFolder>> open_base(const nlohmann::json& config, const std::filesystem::path& path);

// Every tensor of the graph: from `own` those that it has, from `base` the others. Both must outlive the result.
Result<std::vector<plugin::StoredTensor>> find_with_base(const graph::Graph& graph, const model::Weights& own,
                                                         const model::Weights& base, const plugin::NameRules& names);

} // namespace hekla::infer
