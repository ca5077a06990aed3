#include "plugin_index.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/nearest_name.hpp"
#include "base/read_only_arena.hpp"
#include "base/sha256.hpp"
#include "hekla/plugin/abi.h"
#include "plugin/manifest.hpp"
#include "plugin/version_range.hpp"
#include "plugin_package.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kFormat = "hekla_plugin_index";
constexpr int kFormatVersion = 1;

// Reads the members of one object; the first problem is kept.
struct Members {
    const json& object;
    std::string where;
    Status status;

    void fail(const char* key, const char* expected, const json* found) {
        if (!status.ok()) return;
        status = corrupt(found == nullptr ? fmt::format("{}: the key \"{}\" is missing", where, key)
                                          : fmt::format("{}.{}: expected {}, found {}", where, key, expected,
                                                        found->dump(-1, ' ', false, json::error_handler_t::replace)));
    }
    const json* find(const char* key) const {
        const auto found = object.find(key);
        return found == object.end() ? nullptr : &*found;
    }
    std::string text(const char* key) {
        const json* value = find(key);
        if (value != nullptr && value->is_string()) return *value;
        fail(key, "a string", value);
        return {};
    }
    uint32_t number(const char* key) {
        const json* value = find(key);
        if (value != nullptr && value->is_number_unsigned() && value->get<uint64_t>() <= UINT32_MAX) return *value;
        fail(key, "an integer of 0 or more", value);
        return 0;
    }
    const json& list(const char* key) {
        static const json kNone = json::array();
        const json* value = find(key);
        if (value != nullptr && value->is_array()) return *value;
        fail(key, "a list", value);
        return kNone;
    }
};

Result<IndexedPlugin> read_entry(const json& value, const std::string& where) {
    if (!value.is_object()) return corrupt(fmt::format("{}: expected an object", where));
    Members in{value, where, {}};
    IndexedPlugin entry;
    entry.plugin = in.text("plugin");
    entry.version = in.text("version");
    entry.licence = in.text("licence");
    entry.about = in.text("about");
    entry.abi_major = in.number("abi_major");
    entry.abi_minor_needed = in.number("abi_minor_needed");
    for (const json& platform : in.list("platforms")) {
        if (!platform.is_string())
            in.fail("platforms", "strings", &platform);
        else
            entry.platforms.push_back(platform);
    }
    for (const json& need : in.list("needs")) {
        Members one{need, where + ".needs", {}};
        if (!need.is_object()) return corrupt(fmt::format("{}: expected objects", one.where));
        entry.needs.push_back({one.text("plugin"), one.text("version")});
        HK_TRY(one.status);
        const auto range = plugin::VersionRange::parse(entry.needs.back().version);
        if (!range.ok()) return range.status().with_context(one.where);
    }
    entry.archive = in.text("archive");
    entry.sha256 = in.text("sha256");
    if (in.status.ok() && !is_sha256_hex(entry.sha256))
        in.fail("sha256", "64 digits of 0 to 9 and a to f", in.find("sha256"));
    if (in.status.ok() && !plugin::parse_version(entry.version))
        in.fail("version", "numbers with dots between them", in.find("version"));
    HK_TRY(in.status);
    return entry;
}

bool loads_here(const IndexedPlugin& plugin) {
    return plugin.abi_major == HK_ABI_MAJOR && plugin.abi_minor_needed <= HK_ABI_MINOR;
}

bool runs_here(const IndexedPlugin& plugin) {
    return std::ranges::any_of(plugin.platforms,
                               [](const std::string& name) { return name == kSources || name == platform_name(); });
}

} // namespace

Result<PluginIndex> PluginIndex::read(const fs::path& file) {
    PluginIndex index;
    index.file_ = file;
    HK_ASSIGN(const std::string content, read_file(file));
    HK_ASSIGN(const json root, parse_json_object(content, file.string()));
    const auto version = root.find(kFormat);
    if (version == root.end())
        return corrupt(
            fmt::format("{}: the key \"{}\" is missing: it is not an index of plugins", file.string(), kFormat));
    if (*version != kFormatVersion)
        return unsupported(fmt::format("{}: \"{}\" is {}, this Hekla reads {}", file.string(), kFormat, version->dump(),
                                       kFormatVersion));
    const auto plugins = root.find("plugins");
    if (plugins == root.end() || !plugins->is_array())
        return corrupt(fmt::format("{}: expected a list under the key \"plugins\"", file.string()));
    for (std::size_t i = 0; i < plugins->size(); ++i) {
        Result<IndexedPlugin> entry = read_entry((*plugins)[i], fmt::format("plugins[{}]", i));
        if (!entry.ok()) return entry.status().with_context(file.string());
        index.plugins_.push_back(entry.take());
    }
    return index;
}

Result<std::vector<IndexedPlugin>>
PluginIndex::resolve(const std::string& name, const std::string& range,
                     const std::vector<std::pair<std::string, std::string>>& there) const {
    std::vector<IndexedPlugin> order;
    std::vector<std::string> path;
    const auto visit = [&](const auto& self, const std::string& wanted, const std::string& versions) -> Status {
        HK_ASSIGN(const plugin::VersionRange allowed, plugin::VersionRange::parse(versions));
        const auto known = [&](const auto& list, const auto& name_of, const auto& version_of) {
            return std::ranges::any_of(
                list, [&](const auto& one) { return name_of(one) == wanted && allowed.contains(version_of(one)); });
        };
        if (!path.empty() && known(
                                 there, [](const auto& p) { return p.first; }, [](const auto& p) { return p.second; }))
            return {};
        if (known(
                order, [](const auto& p) { return p.plugin; }, [](const auto& p) { return p.version; }))
            return {};
        if (std::ranges::find(path, wanted) != path.end())
            return failed_precondition(fmt::format("{}: plugins need each other in a circle: {} -> {}", file_.string(),
                                                   fmt::join(path, " -> "), wanted));
        const IndexedPlugin* best = nullptr;
        std::vector<std::string> refused;
        std::vector<std::string_view> names;
        for (const IndexedPlugin& one : plugins_) {
            names.push_back(one.plugin);
            if (one.plugin != wanted) continue;
            const std::string why =
                !allowed.contains(one.version) ? "is not in the range"
                : !loads_here(one) ? fmt::format("is for plugin ABI {}.{}, this Hekla offers {}.{}", one.abi_major,
                                                 one.abi_minor_needed, HK_ABI_MAJOR, HK_ABI_MINOR)
                : !runs_here(one)  ? fmt::format("has no library for {} and no sources", platform_name())
                                   : "";
            if (!why.empty())
                refused.push_back(fmt::format("{} {}", one.version, why));
            else if (best == nullptr || *plugin::parse_version(best->version) < *plugin::parse_version(one.version))
                best = &one;
        }
        const std::string by = path.empty() ? "" : fmt::format(", which '{}' needs", path.back());
        if (best == nullptr && !refused.empty())
            return not_found(fmt::format("{}: no version of the plugin '{}'{}{} can be installed: {}", file_.string(),
                                         wanted, versions.empty() ? "" : " " + versions, by, fmt::join(refused, "; ")));
        if (best == nullptr) {
            const std::string_view near = nearest_name(wanted, names);
            return not_found(fmt::format("{}: has no plugin '{}'{}{}", file_.string(), wanted, by,
                                         near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
        }
        path.push_back(wanted);
        for (const IndexedPlugin::Need& need : best->needs) HK_TRY(self(self, need.plugin, need.version));
        path.pop_back();
        order.push_back(*best);
        return {};
    };
    HK_TRY(visit(visit, name, range));
    return order;
}

Result<fs::path> PluginIndex::archive_of(const IndexedPlugin& plugin) const {
    if (plugin.archive.find("://") != std::string::npos)
        return unsupported(
            fmt::format("{}: the archive of '{}' is on another machine: curl -fLO '{}', then hekla plugin "
                        "install {} --index {}",
                        file_.string(), plugin.plugin, plugin.archive, fs::path(plugin.archive).filename().string(),
                        file_.string()));
    return file_.parent_path() / plugin.archive;
}

const IndexedPlugin* PluginIndex::with_hash(std::string_view sha256) const {
    const auto found = std::ranges::find(plugins_, sha256, &IndexedPlugin::sha256);
    return found == plugins_.end() ? nullptr : &*found;
}

Result<ordered_json> make_index(const fs::path& folder) {
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
        HK_ASSIGN(const PluginPackage package, PluginPackage::open(file));
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
        HK_ASSIGN(const MappedFile content, MappedFile::open(file));
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
                           {"platforms", platforms},
                           {"archive", file.filename().string()},
                           {"sha256", sha256_hex(content.text())}});
    }
    return ordered_json{{kFormat, kFormatVersion}, {"plugins", std::move(plugins)}};
}

} // namespace hekla::app
