#include "generate/settings.hpp"

#include "base/file.hpp"
#include "base/json.hpp"

namespace hekla::generate {

using nlohmann::json;

Result<json> settings_of(const std::filesystem::path& folder, const json& config) {
    constexpr uint64_t kSizeLimit = 16u << 20;
    const std::filesystem::path file = folder / kSettingsFile;
    std::error_code error;
    if (!std::filesystem::exists(file, error)) return config;
    HK_ASSIGN(const std::string text, read_file(file, kSizeLimit));
    HK_ASSIGN(json settings, parse_json_object(text, file.string()));
    for (const char* const token : {"bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"})
        if (const auto found = config.find(token); found != config.end() && !settings.contains(token))
            settings[token] = *found;
    return settings;
}

} // namespace hekla::generate
