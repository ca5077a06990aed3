// A folder's own settings of generation.
#pragma once

#include "base/status.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace hekla::generate {

inline constexpr std::string_view kSettingsFile = "generation_config.json";

// What options_from() takes as a folder's configuration, and the file that it is from.
struct FolderSettings {
    nlohmann::json values;
    std::string file;
    bool published = false; // `values` are of generation_config.json
};

// Returns them as the reference reads them: generation_config.json with the special tokens of config.json that it does
// not name; without that file, config.json. Errors: a file that cannot be read, or is not a JSON object.
Result<FolderSettings> settings_of(const std::filesystem::path& folder, const nlohmann::json& config);

// Returns generation_config.json of a model that was trained from nothing: what its config.json has of generation.
std::string settings_file(const nlohmann::json& config);

} // namespace hekla::generate
