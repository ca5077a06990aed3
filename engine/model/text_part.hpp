// The language model of a folder that also reads images or sounds: Gemma 3, Mistral 3 and others have its settings in
// text_config, which alone is computed here.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

namespace hekla::model {

// Returns the configuration of the language model: text_config, completed by what the whole has for it (classes,
// special tokens, whether the decoder is the embedding); std::nullopt without a text_config that has a model_type.
std::optional<nlohmann::json> text_part(const nlohmann::json& config);

} // namespace hekla::model
