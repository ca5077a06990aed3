// Keys of configurations that change what a model computes. A model that does not read such a key would compute
// something else than the one that wrote it, so its value must be one that changes nothing.
#pragma once

#include "base/status.hpp"
#include "plugin/registry/manifest.hpp"

#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace hekla::plugin {

// Checks the keys of a config.json that an architecture has not read: unsupported with the key, its value and what was
// expected. values: with the defaults of the manifest; read: paths of keys. what: "architecture 'llama'"; file: of the
// config, or "".
Status check_neutral_keys(const Provided& provided, const nlohmann::json& given, const nlohmann::json& values,
                          const std::set<std::string>& read, const std::string& what, const std::string& file);

} // namespace hekla::plugin
