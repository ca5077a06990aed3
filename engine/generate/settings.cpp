#include "generate/settings.hpp"

#include "base/file.hpp"
#include "base/json.hpp"

namespace hekla::generate {

using nlohmann::json;

Result<FolderSettings> settings_of(const std::filesystem::path& folder, const json& config) {
    constexpr uint64_t kSizeLimit = 16u << 20;
    const std::filesystem::path file = folder / kSettingsFile;
    std::error_code error;
    if (!std::filesystem::exists(file, error)) return FolderSettings{config, (folder / "config.json").string()};
    HK_ASSIGN(const std::string text, read_file(file, kSizeLimit));
    HK_ASSIGN(json settings, parse_json_object(text, file.string()));
    for (const char* const token : {"bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"})
        if (const auto found = config.find(token); found != config.end() && !settings.contains(token))
            settings[token] = *found;
    return FolderSettings{std::move(settings), file.string(), true};
}

std::string settings_file(const json& config) {
    json settings = json::object();
    for (const char* const key :
         {"bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "forced_bos_token_id",
          "forced_eos_token_id", "suppress_tokens", "min_length", "max_length", "length_penalty",
          "no_repeat_ngram_size", "repetition_penalty", "num_beams", "early_stopping"})
        if (const auto found = config.find(key); found != config.end() && !found->is_null()) settings[key] = *found;
    return settings.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace hekla::generate
