#include "plugin_index.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/nearest_name.hpp"
#include "base/path_text.hpp"
#include "base/read_only_arena.hpp"
#include "base/sha256.hpp"
#include "base/shell_word.hpp"
#include "base/strict_table.hpp"
#include "hekla/plugin/abi.h"
#include "plugin/registry/manifest.hpp"
#include "plugin/registry/version_range.hpp"
#include "plugin_package.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kFormat = "hekla_plugin_index";
constexpr int kFormatVersion = 1;
constexpr uint64_t kMostBytes = uint64_t{16} << 20; // of an index: about 40,000 plugins
constexpr std::size_t kMostRefused = 8;             // versions that an error lists

uint32_t read_number(StrictTable& table, const char* key) {
    int64_t number = 0;
    table.require(key, number, NumberRange{0.0, std::numeric_limits<uint32_t>::max()});
    return static_cast<uint32_t>(number);
}

// Other keys of an entry are for newer readers.
IndexedPlugin read_entry(StrictTable& in) {
    IndexedPlugin entry;
    in.require("plugin", entry.plugin);
    in.require("version", entry.version);
    in.require("licence", entry.licence);
    in.require("about", entry.about);
    entry.abi_major = read_number(in, "abi_major");
    entry.abi_minor_needed = read_number(in, "abi_minor_needed");
    in.require("platforms", entry.platforms);
    in.read("provides", entry.provides);
    in.require("needs");
    const auto read_need = [&](StrictTable& one) {
        IndexedPlugin::Need& need = entry.needs.emplace_back();
        one.require("plugin", need.plugin);
        one.require("version", need.version);
        if (const auto range = plugin::VersionRange::parse(need.version); !range.ok()) one.refuse(range.message());
    };
    in.tables("needs", read_need, 0);
    in.require("archive", entry.archive);
    in.require("sha256", entry.sha256);
    if (!is_sha256_hex(entry.sha256))
        in.fail("sha256", fmt::format("is {}, expected 64 digits of 0 to 9 and a to f", shown_value(entry.sha256)));
    if (!plugin::parse_version(entry.version))
        in.fail("version", fmt::format("is {}, expected numbers with dots between them", shown_value(entry.version)));
    return entry;
}

bool loads_here(const IndexedPlugin& plugin) {
    return plugin.abi_major == HK_ABI_MAJOR && plugin.abi_minor_needed <= HK_ABI_MINOR;
}

bool runs_here(const IndexedPlugin& plugin) {
    return std::ranges::any_of(plugin.platforms,
                               [](const std::string& name) { return name == kSources || name == platform_name(); });
}

// "https://example.org/a.zip", not "a://b" of a path.
bool is_url(std::string_view archive) {
    const std::size_t end = archive.find("://");
    return end != std::string_view::npos && end > 0 &&
           std::ranges::all_of(archive.substr(0, end), [](char c) { return c >= 'a' && c <= 'z'; });
}

// Returns the name under which `curl -O` saves what a URL has, as a word that is not an option.
std::string saved_name(const std::string& url) {
    const std::string name = path_of(url.substr(0, url.find_first_of("?#"))).filename().string();
    return name.starts_with('-') ? "./" + name : name;
}

std::vector<std::string> provided_by(const plugin::Manifest& manifest) {
    std::vector<std::string> all;
    for (const plugin::Provided& one : manifest.provides) all.push_back(fmt::format("{} {}", one.interface_id, one.id));
    return all;
}

} // namespace

Status check_is(const plugin::Manifest& manifest, const IndexedPlugin& entry) {
    std::vector<std::string> differences;
    const auto compare = [&](const char* key, const auto& found, const auto& expected) {
        if (found != expected) differences.push_back(fmt::format("{} {}, not {}", key, found, expected));
    };
    const auto listed = [](const auto& list) { return fmt::format("[{}]", fmt::join(list, ", ")); };
    compare("plugin", manifest.plugin, entry.plugin);
    compare("version", manifest.version, entry.version);
    compare("abi_major", manifest.abi_major, entry.abi_major);
    compare("abi_minor_needed", manifest.abi_minor_needed, entry.abi_minor_needed);
    std::vector<std::string> needs, expected_needs;
    for (const plugin::Need& need : manifest.needs) needs.push_back(fmt::format("{} {}", need.plugin, need.version));
    for (const IndexedPlugin::Need& need : entry.needs)
        expected_needs.push_back(fmt::format("{} {}", need.plugin, need.version));
    compare("needs", listed(needs), listed(expected_needs));
    if (!entry.provides.empty()) compare("provides", listed(provided_by(manifest)), listed(entry.provides));
    if (differences.empty()) return {};
    return corrupt(fmt::format("the archive is not what the index has for '{}' {}: {}; nothing was installed; tell the "
                               "author of the index",
                               entry.plugin, entry.version, fmt::join(differences, ", ")));
}

Result<PluginIndex> PluginIndex::read(const fs::path& file) {
    PluginIndex index;
    index.file_ = file;
    HK_ASSIGN(const std::string content, read_file(file, kMostBytes));
    HK_ASSIGN(const json root, parse_json_object(content, file.string()));
    const auto version = root.find(kFormat);
    if (version == root.end())
        return corrupt(
            fmt::format("{}: the key \"{}\" is missing: it is not an index of plugins", file.string(), kFormat));
    if (*version != kFormatVersion)
        return unsupported(fmt::format("{}: \"{}\" is {}, this Hekla reads {}", file.string(), kFormat, version->dump(),
                                       kFormatVersion));
    TableReading reading(file.string(), Code::corrupt);
    reading.refuses_unknown_keys = false;
    reading.refuses_control_characters = true;
    StrictTable table(root, reading);
    table.require("plugins");
    const auto add_entry = [&](StrictTable& one) {
        index.plugins_.push_back(read_entry(one));
        index.by_name_[index.plugins_.back().plugin].push_back(index.plugins_.size() - 1);
    };
    table.tables("plugins", add_entry, 0);
    HK_TRY(reading.status());
    return index;
}

Result<std::vector<IndexedPlugin>>
PluginIndex::resolve(const std::string& name, const std::string& range,
                     const std::vector<std::pair<std::string, std::string>>& there) const {
    std::vector<IndexedPlugin> order;
    std::vector<std::string> path;
    std::map<std::string_view, std::vector<std::string_view>> installed, chosen; // versions by name
    for (const auto& [plugin, version] : there) installed[plugin].push_back(version);
    const auto visit = [&](const auto& self, const std::string& wanted, const std::string& versions) -> Status {
        HK_ASSIGN(const plugin::VersionRange allowed, plugin::VersionRange::parse(versions));
        const auto has = [&](const auto& versions_of) {
            const auto found = versions_of.find(wanted);
            return found != versions_of.end() &&
                   std::ranges::any_of(found->second, [&](std::string_view one) { return allowed.contains(one); });
        };
        if ((!path.empty() && has(installed)) || has(chosen)) return {};
        if (std::ranges::find(path, wanted) != path.end())
            return failed_precondition(fmt::format("{}: plugins need each other in a circle: {} -> {}", file_.string(),
                                                   fmt::join(path, " -> "), wanted));
        const IndexedPlugin* best = nullptr;
        std::vector<std::string> refused;
        const auto of_name = by_name_.find(wanted);
        for (const std::size_t place : of_name != by_name_.end() ? of_name->second : std::vector<std::size_t>()) {
            const IndexedPlugin& one = plugins_[place];
            const std::string why =
                !allowed.contains(one.version) ? "is not in the range"
                : !loads_here(one) ? fmt::format("is for plugin ABI {}.{}, this Hekla offers {}.{}", one.abi_major,
                                                 one.abi_minor_needed, HK_ABI_MAJOR, HK_ABI_MINOR)
                : !runs_here(one)  ? fmt::format("has no library for {} and no sources", platform_name())
                                   : "";
            if (!why.empty()) {
                if (refused.size() <= kMostRefused)
                    refused.push_back(refused.size() < kMostRefused ? fmt::format("{} {}", one.version, why) : "...");
                continue;
            }
            if (best == nullptr || *plugin::parse_version(best->version) < *plugin::parse_version(one.version))
                best = &one;
        }
        const std::string by = path.empty() ? "" : fmt::format(", which '{}' needs", path.back());
        if (best == nullptr && !refused.empty())
            return not_found(fmt::format("{}: no version of the plugin '{}'{}{} can be installed: {}", file_.string(),
                                         wanted, versions.empty() ? "" : " " + versions, by, fmt::join(refused, "; ")));
        if (best == nullptr) {
            std::vector<std::string_view> names;
            for (const auto& [one, places] : by_name_) names.push_back(one);
            return not_found(
                fmt::format("{}: has no plugin '{}'{}{}", file_.string(), wanted, by, did_you_mean(wanted, names)));
        }
        if (path.size() >= plugin::kLongestChain)
            return failed_precondition(fmt::format("{}: the plugin '{}' needs a chain of more than {} plugins",
                                                   file_.string(), name, plugin::kLongestChain));
        path.push_back(wanted);
        for (const IndexedPlugin::Need& need : best->needs) HK_TRY(self(self, need.plugin, need.version));
        path.pop_back();
        chosen[best->plugin].push_back(best->version);
        order.push_back(*best);
        return {};
    };
    HK_TRY(visit(visit, name, range));
    return order;
}

Result<fs::path> PluginIndex::archive_of(const IndexedPlugin& plugin) const {
    if (is_url(plugin.archive))
        return unsupported(fmt::format("{}: the archive of '{}' is on another machine: curl -fLO {}, then hekla plugin "
                                       "install {} --index {}",
                                       file_.string(), plugin.plugin, shell_word(plugin.archive),
                                       shell_word(saved_name(plugin.archive)), shell_word(file_.string())));
    return file_.parent_path() / plugin.archive;
}

const IndexedPlugin* PluginIndex::with_hash(std::string_view sha256) const {
    const auto found = std::ranges::find(plugins_, sha256, &IndexedPlugin::sha256);
    return found == plugins_.end() ? nullptr : &*found;
}

Result<ordered_json> make_index(const fs::path& folder, const StopPoll& stop) {
    std::vector<fs::path> archives;
    std::error_code problem;
    fs::directory_iterator it(folder, problem);
    if (problem) return io_error(fmt::format("{}: cannot be listed: {}", folder.string(), problem.message()));
    for (const fs::directory_iterator end; !problem && it != end; it.increment(problem))
        if (it->path().extension() == ".zip") archives.push_back(it->path());
    std::ranges::sort(archives);
    if (archives.empty()) return not_found(fmt::format("{}: has no archives (*.zip)", folder.string()));
    ordered_json plugins = ordered_json::array();
    for (const fs::path& file : archives) {
        HK_ASSIGN(const PluginPackage package, PluginPackage::open(file, {}, stop));
        const std::vector<std::string> platforms = package.platforms();
        if (platforms.empty())
            return unsupported(
                fmt::format("{}: expected its library and manifest in a folder named as the platform, such as "
                            "{}/, or sources",
                            file.string(), platform_name()));
        ReadOnlyArena kept;
        const Result<plugin::Manifest> read = plugin::read_manifest(package.manifest(), kept);
        if (!read.ok()) return read.status().with_context(file.string());
        const plugin::Manifest& manifest = read.value();
        if (!plugin::parse_version(manifest.version))
            return unsupported(fmt::format("{}: its version \"{}\" is not numbers with dots between them",
                                           file.string(), manifest.version));
        ordered_json needs = ordered_json::array();
        for (const plugin::Need& need : manifest.needs)
            needs.push_back({{"plugin", need.plugin}, {"version", need.version}});
        std::vector<std::string> about;
        for (const plugin::Provided& one : manifest.provides) about.push_back(fmt::format("{}: {}", one.id, one.about));
        plugins.push_back({{"plugin", manifest.plugin},
                           {"version", manifest.version},
                           {"licence", manifest.licence},
                           {"about", fmt::format("{}", fmt::join(about, "; "))},
                           {"abi_major", manifest.abi_major},
                           {"abi_minor_needed", manifest.abi_minor_needed},
                           {"needs", std::move(needs)},
                           {"provides", provided_by(manifest)},
                           {"platforms", platforms},
                           {"archive", file.filename().string()},
                           {"sha256", package.sha256()}});
    }
    return ordered_json{{kFormat, kFormatVersion}, {"plugins", std::move(plugins)}};
}

} // namespace hekla::app
