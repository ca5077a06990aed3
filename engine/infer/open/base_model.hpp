// The model whose body an adapter was trained with. The adapter's config.json names its folder under "hekla".
#pragma once

#include "model/folder.hpp"
#include "plugin/composition/model_names.hpp"

#include <nlohmann/json.hpp>
#include <optional>

namespace hekla::infer {

// Returns {"folder", "weights"}: the path of the model's folder, and the hash of its weights, to identify it later.
Result<nlohmann::ordered_json> base_of(const std::filesystem::path& folder);

// Returns base_of() as the config.json in `folder` has it: "folder" is relative to `folder`, so that both can be moved
// together, and "absolute" is where the model was. Without a relative path (another drive), only the absolute one.
nlohmann::ordered_json base_from(const nlohmann::ordered_json& base, const std::filesystem::path& folder);

// Opens the folder that the config.json of the model at `path` names; nothing if it names none. If there is none at its
// relative path, the absolute one is used. Errors: neither exists; its weights are not those that the adapter was
// trained with.
Result<std::optional<model::ModelFolder>> open_base(const nlohmann::json& config, const std::filesystem::path& path);

// Returns every tensor of the graph: from `own` if it is there, otherwise from `base`. Both must outlive the result.
Result<std::vector<plugin::StoredTensor>> find_with_base(const graph::Graph& graph, const model::Weights& own,
                                                         const model::Weights& base, const plugin::NameRules& names);

} // namespace hekla::infer
