// An index of plugins: a JSON file next to archives, which a community can serve from any web server or repository. The
// format is in plugins/README.md.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace hekla::app {

struct IndexedPlugin {
    struct Need {
        std::string plugin, version; // a VersionRange
    };
    std::string plugin, version, licence, about;
    uint32_t abi_major = 0, abi_minor_needed = 0;
    std::vector<Need> needs;
    std::vector<std::string> platforms; // and kSources
    std::string archive;                // a path relative to the index, or a URL
    std::string sha256;                 // of the archive
};

class PluginIndex {
public:
    // Errors contain the file, the key and what was expected.
    static Result<PluginIndex> read(const std::filesystem::path& file);
    // Returns the plugins that must be installed for `name` in this version range, each after those that it needs:
    // of each the newest version that this program can load and this machine has a library of, or sources. Those in
    // `there` (name and version) count as installed. Errors name what is missing, and needs in a circle.
    Result<std::vector<IndexedPlugin>> resolve(const std::string& name, const std::string& range,
                                               const std::vector<std::pair<std::string, std::string>>& there) const;
    // Returns where an archive is. Error: unsupported: it is a URL, with the command that fetches it.
    Result<std::filesystem::path> archive_of(const IndexedPlugin& plugin) const;
    // Returns the entry with this hash; null: none.
    const IndexedPlugin* with_hash(std::string_view sha256) const;

private:
    std::filesystem::path file_;
    std::vector<IndexedPlugin> plugins_;
};

// Returns the index of all *.zip of a folder, sorted by their names. Errors: an archive without a plugin, or one that
// has no folder PLATFORM/ and no sources.
Result<nlohmann::ordered_json> make_index(const std::filesystem::path& folder);

} // namespace hekla::app
