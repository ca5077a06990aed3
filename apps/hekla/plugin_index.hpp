// An index of plugins: a JSON file next to archives, which a community can serve from any web server or repository. The
// format is in plugins/README.md.
#pragma once

#include "base/status.hpp"
#include "base/stop_poll.hpp"
#include "plugin/registry/manifest.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
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
    std::vector<std::string> provides;  // "hekla.head/1 regression"; empty in indexes of earlier versions
    std::vector<std::string> platforms; // and kSources
    std::string archive;                // a path relative to the index, or a URL
    std::string sha256;                 // of the archive
};

// Returns an error with everything in which a plugin differs from its entry in an index.
Status check_is(const plugin::Manifest& manifest, const IndexedPlugin& entry);

class PluginIndex {
public:
    // Errors contain the file, the key and what was expected; one is a file that is too large to be an index.
    static Result<PluginIndex> read(const std::filesystem::path& file);
    // Returns the plugins that must be installed for `name` in this version range, each after those that it needs:
    // of each the newest version that this program can load and this machine has a library of, or sources. Those in
    // `there` (name and version) count as installed. Errors name what is missing, needs in a circle, and chains of
    // more than 64 needs.
    Result<std::vector<IndexedPlugin>> resolve(const std::string& name, const std::string& range,
                                               const std::vector<std::pair<std::string, std::string>>& there) const;
    // Returns where an archive is. Error: unsupported: it is a URL, with the command that fetches it, for a shell.
    Result<std::filesystem::path> archive_of(const IndexedPlugin& plugin) const;
    // Returns the entry with this hash; null: none.
    const IndexedPlugin* with_hash(std::string_view sha256) const;

private:
    std::filesystem::path file_;
    std::vector<IndexedPlugin> plugins_;
    std::map<std::string, std::vector<std::size_t>, std::less<>> by_name_; // places in plugins_
};

// Returns the index of all *.zip of a folder, sorted by their names. Errors: an archive without a plugin, or one that
// has no folder PLATFORM/ and no sources; cancelled.
Result<nlohmann::ordered_json> make_index(const std::filesystem::path& folder, const StopPoll& stop);

} // namespace hekla::app
