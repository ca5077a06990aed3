// hekla plugin install, update, uninstall, index: plugins of others in the user's own folder.
#include "command.hpp"
#include "installed_plugins.hpp"
#include "output.hpp"
#include "plugin_index.hpp"
#include "plugin_package.hpp"

#include "base/file.hpp"
#include "base/interrupts.hpp"
#include "base/path_text.hpp"
#include "base/read_only_arena.hpp"
#include "base/sha256.hpp"
#include "check/check.hpp"
#include "plugin/registry/version_range.hpp"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;

struct InstallArguments {
    std::string what, index, to, version;
    int level = 1;
    bool from_sources = false, force = false;
};

fs::path folder_or_users(const std::string& given) {
    return given.empty() ? Globals::user_plugin_folder() : path_of(given);
}

// Returns all plugins, of which those of this folder, which need not exist, come first.
plugin::Registry scan_with(const Globals& globals, const fs::path& folder) {
    std::vector<fs::path> folders = globals.plugin_folders();
    std::error_code problem;
    if (fs::is_directory(folder, problem)) folders.insert(folders.begin(), folder);
    return plugin::Registry::scan(folders, globals.log());
}

class Installation {
public:
    Installation(const Globals& globals, const InstallArguments& arguments, bool update)
        : globals_(globals), arguments_(arguments), update_(update), there_(folder_or_users(arguments.to)),
          registry_(scan_with(globals, there_.folder())) {}

    Status run() {
        if (there_.folder().empty())
            return failed_precondition(
                "the folder of plugins is not known: set HOME or XDG_DATA_HOME, or give one with --to");
        const bool is_archive = arguments_.what.ends_with(".zip") || arguments_.what.find('/') != std::string::npos;
        if (is_archive || arguments_.index.empty()) {
            std::optional<IndexedPlugin> entry;
            if (!arguments_.index.empty()) { HK_ASSIGN(entry, entry_of_index()); }
            return one(arguments_.what, entry ? &*entry : nullptr, update_);
        }
        HK_ASSIGN(const PluginIndex index, PluginIndex::read(arguments_.index));
        std::vector<std::pair<std::string, std::string>> there;
        for (const plugin::Manifest& manifest : registry_.manifests())
            there.emplace_back(manifest.plugin, manifest.version);
        HK_ASSIGN(const std::vector<IndexedPlugin> order, index.resolve(arguments_.what, arguments_.version, there));
        for (const IndexedPlugin& entry : order) {
            HK_ASSIGN(const fs::path archive, index.archive_of(entry));
            // Another version of a plugin that is only needed replaces the one that is there.
            const bool replace =
                entry.plugin == arguments_.what ? update_ : registry_.plugin_named(entry.plugin) != nullptr;
            HK_TRY(one(archive, &entry, replace));
        }
        return {};
    }

private:
    // The index must know an archive that was fetched by hand.
    Result<IndexedPlugin> entry_of_index() const {
        HK_ASSIGN(const PluginIndex index, PluginIndex::read(arguments_.index));
        HK_ASSIGN(const std::string file, read_file(arguments_.what, kMostArchiveBytes));
        const std::string hash = sha256_hex(file);
        const IndexedPlugin* const entry = index.with_hash(hash);
        if (entry == nullptr)
            return corrupt(fmt::format("{}: {} has no archive with its sha256 {}: get the archive again",
                                       arguments_.what, arguments_.index, hash));
        return *entry;
    }

    // entry: what the index has of the archive; null without an index.
    Status one(const fs::path& given, const IndexedPlugin* entry, bool update) {
        HK_ASSIGN(PluginPackage package,
                  PluginPackage::open(given, entry != nullptr ? entry->sha256 : "", interrupted));
        ReadOnlyArena kept;
        std::vector<fs::path> files;
        if (!arguments_.from_sources) files = package.built();
        if (files.empty()) {
            if (!package.has_sources())
                return unsupported(fmt::format("{}: has {} for {}{}", given.string(),
                                               arguments_.from_sources ? "no sources to build" : "no library",
                                               platform_name(), others(package)));
            if (entry != nullptr) { // before anything of it runs
                HK_ASSIGN(const plugin::Manifest manifest, plugin::read_manifest(package.manifest(), kept));
                HK_TRY(check_is(manifest, *entry).with_context(given.string()));
            }
            HK_ASSIGN(const fs::path self, own_path());
            std::fprintf(stderr, "building %s\n", given.c_str());
            HK_ASSIGN(files, package.build(self.parent_path().parent_path(), interrupted));
        }
        // All are checked before the first is copied.
        std::vector<plugin::Manifest> manifests;
        for (const fs::path& file : files) {
            HK_ASSIGN(const plugin::Manifest manifest, plugin::read_manifest(file, kept));
            if (entry != nullptr) HK_TRY(check_is(manifest, *entry).with_context(given.string()));
            HK_TRY(may_install(manifest, given, update));
            HK_TRY(check(manifest));
            manifests.push_back(manifest);
        }
        for (const plugin::Manifest& manifest : manifests) {
            HK_ASSIGN(const fs::path file, there_.put(manifest));
            print_foreign(fmt::format("{} {}: {}\n", manifest.plugin, manifest.version, file.string()));
        }
        registry_ = scan_with(globals_, there_.folder());
        return {};
    }

    static std::string others(const PluginPackage& package) {
        const std::vector<std::string> names = package.platforms();
        return names.empty() ? "" : fmt::format("; it has {}", fmt::join(names, ", "));
    }

    Status may_install(const plugin::Manifest& manifest, const fs::path& given, bool update) const {
        const std::string what = fmt::format("{}: plugin '{}' {}", given.string(), manifest.plugin, manifest.version);
        const plugin::Manifest* const found = registry_.plugin_named(manifest.plugin);
        const plugin::Manifest* const earlier = found != nullptr && there_.holds(*found) ? found : nullptr;
        if (update && earlier == nullptr)
            return failed_precondition(
                fmt::format("{} is not installed in {}: hekla plugin install it", what, there_.folder().string()));
        if (!update && earlier != nullptr)
            return failed_precondition(fmt::format("{} is installed already, as {} ({}): hekla plugin update it", what,
                                                   earlier->version, earlier->file));
        if (found != nullptr && earlier == nullptr && !arguments_.force)
            return failed_precondition(fmt::format("{} has the name of another plugin ({}), which it would be used in "
                                                   "place of; --force installs it",
                                                   what, found->file));
        if (update && !arguments_.force) {
            const auto before = plugin::parse_version(earlier->version), now = plugin::parse_version(manifest.version);
            if (before && now && *now < *before)
                return failed_precondition(fmt::format("{} is older than {}, which is installed; --force installs it",
                                                       what, earlier->version));
        }
        for (const plugin::Need& need : manifest.needs) {
            const plugin::Manifest* const other = registry_.plugin_named(need.plugin);
            HK_ASSIGN(const plugin::VersionRange range, plugin::VersionRange::parse(need.version));
            if (other == nullptr || !range.contains(other->version))
                return failed_precondition(fmt::format(
                    "{} needs the plugin {}{}{}, {}: install that first, or install both from an index (--index)", what,
                    need.plugin, need.version.empty() ? "" : " ", need.version,
                    other == nullptr ? std::string("which is not installed")
                                     : fmt::format("and {} is installed", other->version)));
            if (std::ranges::find(other->needs, manifest.plugin, &plugin::Need::plugin) != other->needs.end())
                return failed_precondition(fmt::format("{} and '{}' need each other", what, other->plugin));
        }
        // The new version must do for the plugins that need the earlier one.
        for (const plugin::Manifest& other : registry_.manifests())
            for (const plugin::Need& need : other.needs) {
                if (need.plugin != manifest.plugin || other.plugin == manifest.plugin) continue;
                HK_ASSIGN(const plugin::VersionRange range, plugin::VersionRange::parse(need.version));
                if (!range.contains(manifest.version))
                    return failed_precondition(fmt::format("{} is not a version that '{}' works with: {} needs {} {}",
                                                           what, other.plugin, other.file, need.plugin, need.version));
            }
        if (arguments_.force) return {};
        for (const plugin::Provided& provided : manifest.provides)
            for (const plugin::Manifest& other : registry_.manifests())
                for (const plugin::Provided& its : other.provides)
                    if (other.plugin != manifest.plugin && its.interface_id == provided.interface_id &&
                        its.id == provided.id)
                        return failed_precondition(fmt::format(
                            "{} provides {} '{}', as '{}' does ({}), and would be used in its place; --force "
                            "installs it",
                            what, provided.interface_id, provided.id, other.plugin, other.file));
        return {};
    }

    // Runs the tests of `plugin check` up to the level, each in its own process.
    Status check(const plugin::Manifest& manifest) const {
        if (arguments_.level == 0) return {};
        check::CheckOptions options;
        options.plugin = manifest.file;
        options.folders = globals_.plugin_folders();
        options.level = arguments_.level;
        options.cache_folder = globals_.cache_folder();
        HK_ASSIGN(options.program, own_command(globals_));
        std::vector<std::string> failed;
        const Status checked = check::check_plugin(options, [&](const check::TestResult& result) {
            if (result.outcome == check::Outcome::failed)
                failed.push_back(fmt::format("{}: {}", result.test, fmt::join(result.findings, "; ")));
            return !interrupted();
        });
        if (checked.code() == Code::cancelled) return Status(Code::cancelled, "stopped; nothing was installed");
        HK_TRY(checked);
        if (failed.empty()) return {};
        return failed_precondition(fmt::format("{}: not installed, since {} of its tests failed:\n  {}",
                                               manifest.library, failed.size(), fmt::join(failed, "\n  ")));
    }

    const Globals& globals_;
    const InstallArguments& arguments_;
    bool update_;
    InstalledPlugins there_;
    plugin::Registry registry_;
};

int run_install(const Globals& globals, const InstallArguments& a, bool update) {
    watch_interrupts(kStoppedEarly);
    const Status done = Installation(globals, a, update).run();
    return done.ok() ? kDone : fail(done);
}

int run_uninstall(const Globals& globals, const std::string& name, const std::string& from) {
    const fs::path folder = folder_or_users(from);
    InstalledPlugins there(folder);
    const plugin::Registry registry = scan_with(globals, folder);
    const plugin::Manifest* const manifest = registry.plugin_named(name);
    if (manifest == nullptr)
        return fail(fmt::format("no plugin '{}' is installed in {}: see hekla plugin list", name, folder.string()));
    if (!there.holds(*manifest))
        return fail(fmt::format("plugin '{}' is not installed in {}, but in {}", name, folder.string(),
                                path_of(manifest->file).parent_path().string()));
    std::vector<std::string> needed_by;
    for (const plugin::Manifest& other : registry.manifests())
        if (std::ranges::find(other.needs, name, &plugin::Need::plugin) != other.needs.end())
            needed_by.emplace_back(other.plugin);
    if (!needed_by.empty())
        return fail(fmt::format("plugin '{}' is needed by {}: uninstall {} first", name, fmt::join(needed_by, ", "),
                                needed_by.size() == 1 ? "it" : "them"));
    const Status removed = there.remove(*manifest);
    if (!removed.ok()) return fail(removed);
    fmt::print("{} {}: removed from {}\n", name, manifest->version, folder.string());
    return kDone;
}

int run_index(const std::string& folder, const std::string& output) {
    watch_interrupts(kStoppedEarly);
    const Result<nlohmann::ordered_json> index = make_index(folder, interrupted);
    if (!index.ok()) return fail(index.status());
    const fs::path file = output.empty() ? path_of(folder) / "index.json" : path_of(output);
    const Status written = write_file_atomically(file, index->dump(2) + "\n");
    if (!written.ok()) return fail(written);
    fmt::print("{}: {} archives\n", file.string(), index->at("plugins").size());
    return kDone;
}

CLI::App* add_install(CLI::App& group, const char* verb, const char* about, const Globals& globals, Verbs& verbs) {
    CLI::App* parser = group.add_subcommand(verb, about);
    const auto a = std::make_shared<InstallArguments>();
    parser
        ->add_option(
            "plugin", a->what,
            "a folder or a zip archive with a built plugin or its sources; with --index: the plugin's name, or an "
            "archive that the index lists")
        ->required();
    parser->add_option("--index", a->index, "an index file; what the plugin needs is installed from it too");
    parser->add_option("--range", a->version, "versions to choose from, as in \">=0.2 <1\"; needs --index");
    parser->add_option("--to", a->to, "the folder to install into (default: ~/.local/share/hekla/plugins)");
    parser->add_option("--check", a->level, "run the tests of `plugin check` up to this level; 0: none")
        ->check(CLI::Range(0, 3))
        ->capture_default_str();
    parser->add_flag("--from-sources", a->from_sources, "build it, even where a library for this machine is there");
    parser->add_flag("--force", a->force,
                     "install it even if it is older, or if it would be used in place of another plugin");
    const bool update = std::string_view(verb) == "update";
    verbs.push_back({parser, [&globals, a, update] { return run_install(globals, *a, update); }});
    return parser;
}

} // namespace

void add_plugin_install(CLI::App& plugin, const Globals& globals, Verbs& verbs) {
    add_install(
        plugin, "install",
        "Check a plugin and copy it into the user's folder of plugins; build it first where only its sources are "
        "there.",
        globals, verbs)
        ->footer("Example: hekla plugin install gated-mixer-0.2.0.zip\n"
                 "         hekla plugin install gated-mixer --index plugins/index.json");
    add_install(plugin, "update", "Replace an installed plugin by a newer version.", globals, verbs)
        ->footer("Example: hekla plugin update gated-mixer-0.3.0.zip");

    CLI::App* uninstall = plugin.add_subcommand("uninstall", "Delete an installed plugin that no other one needs.");
    const auto name = std::make_shared<std::string>(), from = std::make_shared<std::string>();
    uninstall->add_option("name", *name, "the plugin's name, as `plugin list` prints it")->required();
    uninstall->add_option("--from", *from, "the folder that it is in (default: ~/.local/share/hekla/plugins)");
    uninstall->footer("Example: hekla plugin uninstall gated-mixer");
    verbs.push_back({uninstall, [&globals, name, from] { return run_uninstall(globals, *name, *from); }});

    CLI::App* index = plugin.add_subcommand("index", "Write the index of a folder of archives, for `plugin install`.");
    const auto folder = std::make_shared<std::string>(), output = std::make_shared<std::string>();
    index->add_option("folder", *folder, "a folder with archives (*.zip)")->required();
    index->add_option("-o,--output", *output, "write to this file (default: index.json in the folder)");
    index->footer("Example: hekla plugin index plugins");
    verbs.push_back({index, [folder, output] { return run_index(*folder, *output); }});
}

} // namespace hekla::app
