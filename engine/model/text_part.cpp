#include "model/text_part.hpp"

namespace hekla::model {

std::optional<nlohmann::json> text_part(const nlohmann::json& config) {
    const auto found = config.find("text_config");
    if (found == config.end() || !found->is_object()) return std::nullopt;
    const auto type = found->find("model_type");
    if (type == found->end() || !type->is_string()) return std::nullopt;
    nlohmann::json text = *found;
    for (const char* key : {"architectures", "tie_word_embeddings", "bos_token_id", "eos_token_id", "pad_token_id",
                            "dtype", "torch_dtype", "transformers_version", "quantization_config"})
        if (const auto whole = config.find(key); whole != config.end() && !text.contains(key)) text[key] = *whole;
    return text;
}

} // namespace hekla::model
