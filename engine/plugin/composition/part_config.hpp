// The configuration of one plugin: completed and checked by its manifest.
#pragma once

#include "plugin/registry/registry.hpp"

#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace hekla::plugin {

// Returns the given keys, and the defaults of the others. null is replaced by the default unless the manifest has
// "null": true for the key.
nlohmann::json with_defaults(const Provided& provided, const nlohmann::json& given);

// Checks numbers against the ranges of the manifest. The plugin itself checks null and other types.
Status check_ranges(const Provided& provided, const nlohmann::json& values, const std::string& what);

// Reports keys that were given and that the plugin neither read nor has in its manifest: an error, or a warning if
// `refuse` is false. values: with defaults.
Status unknown_keys(const Provided& provided, const nlohmann::json& given, const nlohmann::json& values,
                    const std::set<std::string>& read, bool refuse, const Log& log, const std::string& what);

// Returns whether a plugin describes in another process.
bool goes_apart(const Registry& registry, const Manifest& manifest);

} // namespace hekla::plugin
