#include "plugin_package.hpp"

#include "base/file.hpp"
#include "base/host.hpp"
#include "base/json.hpp"
#include "base/run_child.hpp"
#include "base/sha256.hpp"
#include "base/system_file.hpp"
#include "model/zip_archive.hpp"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>
#include <span>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;

// Limits of an archive, so that a small one cannot fill the disk.
constexpr int64_t kMostEntries = 10'000;
constexpr uint64_t kMostManifestBytes = uint64_t{4} << 20;
constexpr double kLongestBuildSeconds = 1800.0;

// Returns the manifests in a folder whose libraries are next to them, sorted.
std::vector<fs::path> built_manifests(const fs::path& folder) {
    std::vector<fs::path> manifests;
    std::error_code problem;
    for (fs::directory_iterator it(folder, problem), end; !problem && it != end; it.increment(problem)) {
        if (it->path().extension() != ".json") continue;
        const Result<std::string> content = read_file(it->path(), kMostManifestBytes);
        if (!content.ok()) continue;
        const Result<nlohmann::json> manifest = parse_json_object(content.value(), it->path().string());
        if (!manifest.ok() || !manifest->contains("plugin")) continue;
        const auto library = manifest->find("library");
        std::error_code ignored;
        if (library != manifest->end() && library->is_string() &&
            is_plain_file_name(library->get_ref<const std::string&>()) &&
            fs::is_regular_file(folder / library->get_ref<const std::string&>(), ignored))
            manifests.push_back(it->path());
    }
    std::ranges::sort(manifests);
    return manifests;
}

bool holds_sources(const fs::path& folder) {
    std::error_code problem;
    return fs::is_regular_file(folder / "manifest.json", problem) &&
           (fs::is_regular_file(folder / "CMakeLists.txt", problem) ||
            fs::is_regular_file(folder / "build.sh", problem));
}

std::vector<fs::path> folders_in(const fs::path& folder) {
    std::vector<fs::path> folders;
    std::error_code problem;
    for (fs::directory_iterator it(folder, problem), end; !problem && it != end; it.increment(problem))
        if (it->is_directory(problem)) folders.push_back(it->path());
    std::ranges::sort(folders);
    return folders;
}

// Returns whether a name in an archive is a path below the folder that it is unpacked into.
bool stays_inside(std::string_view name) {
    if (name.ends_with('/')) name.remove_suffix(1);
    while (true) {
        const std::size_t slash = name.find('/');
        const std::string_view part = name.substr(0, slash);
        if (!is_plain_file_name(part) || part.find('\\') != std::string_view::npos) return false;
        if (slash == std::string_view::npos) return true;
        name.remove_prefix(slash + 1);
    }
}

// The last lines of what a program printed.
std::string tail(std::string_view text) {
    constexpr std::size_t kLongest = 3000;
    if (text.size() > kLongest) {
        text.remove_prefix(text.size() - kLongest);
        text.remove_prefix(std::min(text.size(), text.find('\n') + 1));
    }
    return std::string(text);
}

Status copy_sources(const fs::path& from, const fs::path& to, const StopPoll& stop) {
    std::error_code problem;
    int64_t files = 0;
    for (fs::recursive_directory_iterator it(from, problem), end; !problem && it != end; it.increment(problem)) {
        HK_TRY(stop.check("copying the sources"));
        const std::string name = it->path().filename().string();
        if (it->is_directory()) {
            if (name.starts_with('.') || name == "build")
                it.disable_recursion_pending();
            else
                fs::create_directories(to / fs::relative(it->path(), from), problem);
        } else if (it->is_regular_file() && !it->is_symlink()) {
            if (++files > kMostEntries)
                return corrupt(fmt::format("{}: has more than {} files; expected the sources of a plugin",
                                           from.string(), kMostEntries));
            fs::copy_file(it->path(), to / fs::relative(it->path(), from), problem);
        }
        if (problem) break;
    }
    if (problem) return io_error(fmt::format("{}: cannot be copied: {}", from.string(), problem.message()));
    return {};
}

} // namespace

bool is_installation(const fs::path& prefix) {
    std::error_code problem;
    return fs::exists(prefix / "lib" / "cmake" / "hekla" / "hekla-config.cmake", problem);
}

std::string platform_name() {
    std::string name = system_name();
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return name;
}

Status PluginPackage::unpack(std::string_view sha256, const StopPoll& stop) {
    HK_ASSIGN(const std::string file, read_file(given_, kMostArchiveBytes));
    sha256_ = sha256_hex(file);
    if (!sha256.empty() && sha256_ != sha256)
        return corrupt(fmt::format("its sha256 is {}, and the index has {}: get the archive again", sha256_, sha256));
    if (!file.starts_with("PK")) return unsupported("is not a zip archive; unpack it, and give the folder");
    HK_ASSIGN(const model::ZipArchive zip,
              model::ZipArchive::open(std::as_bytes(std::span(file)), "archives of plugins are zip archives"));
    if (zip.count() > kMostEntries)
        return corrupt(fmt::format("has {} entries; at most {} were expected", zip.count(), kMostEntries));
    HK_ASSIGN(TemporaryFolder folder, TemporaryFolder::make());
    uint64_t bytes = 0;
    std::set<std::string, std::less<>> names;
    for (int64_t i = 0; i < zip.count(); ++i) {
        HK_TRY(stop.check("unpacking"));
        const std::string name(zip.name(i));
        if (!stays_inside(name))
            return corrupt(fmt::format(
                "the entry '{}' would be written out of the folder that the archive is unpacked into", name));
        if (!names.insert(name).second) return corrupt(fmt::format("the entry '{}' occurs twice", name));
        const fs::path to = folder.path() / name;
        std::error_code problem;
        fs::create_directories(name.ends_with('/') ? to : to.parent_path(), problem);
        if (problem) return io_error(fmt::format("the entry '{}': {}", name, problem.message()));
        if (name.ends_with('/')) continue;
        uint64_t size = 0;
        HK_TRY(zip.stored(i, size).status());
        if (size > kMostArchiveBytes || bytes + size > kMostArchiveBytes)
            return corrupt(fmt::format("its entries have more than {} bytes together", kMostArchiveBytes));
        bytes += size;
        HK_ASSIGN(const auto content, zip.read(i, size));
        problem = write_unsynced(to, {reinterpret_cast<const char*>(content.get()), static_cast<std::size_t>(size)});
        if (problem) return io_error(fmt::format("{}: cannot be written: {}", to.string(), problem.message()));
    }
    root_ = folder.path();
    unpacked_.emplace(std::move(folder));
    return {};
}

Result<PluginPackage> PluginPackage::open(const fs::path& given, std::string_view sha256, const StopPoll& stop) {
    PluginPackage package(given);
    std::error_code problem;
    if (!fs::exists(given, problem))
        return not_found(fmt::format("{}: does not exist; expected a folder or a zip archive", given.string()));
    if (!fs::is_directory(given, problem)) HK_TRY(package.unpack(sha256, stop).with_context(given.string()));
    const auto empty = [&] { return !package.has_sources() && package.platforms().empty() && package.built().empty(); };
    if (package.unpacked_ && empty()) // archives of repositories have all in one folder
        if (const std::vector<fs::path> folders = folders_in(package.root_); folders.size() == 1)
            package.root_ = folders[0];
    if (empty())
        return not_found(
            fmt::format("{}: has no plugin; expected NAME.json with its library, in the folder itself or in {}/, "
                        "or sources: manifest.json with CMakeLists.txt or build.sh",
                        given.string(), platform_name()));
    return package;
}

std::vector<fs::path> PluginPackage::built() const {
    std::vector<fs::path> manifests = built_manifests(root_ / platform_name());
    return manifests.empty() ? built_manifests(root_) : manifests;
}

bool PluginPackage::has_sources() const { return holds_sources(root_); }

std::vector<std::string> PluginPackage::platforms() const {
    std::vector<std::string> names;
    for (const fs::path& folder : folders_in(root_)) {
        const std::string name = folder.filename().string();
        if (name.find('-') != std::string::npos && !built_manifests(folder).empty()) names.push_back(name);
    }
    if (has_sources()) names.emplace_back(kSources);
    return names;
}

fs::path PluginPackage::manifest() const {
    if (has_sources()) return root_ / "manifest.json";
    if (const std::vector<fs::path> manifests = built_manifests(root_); !manifests.empty()) return manifests[0];
    return built_manifests(root_ / platforms().at(0)).at(0);
}

Result<std::vector<fs::path>> PluginPackage::build(const fs::path& prefix, const std::function<bool()>& stop) {
    std::error_code problem;
    if (!is_installation(prefix))
        return failed_precondition(
            fmt::format("{}: has sources, and plugins build against an installed Hekla, which {} is "
                        "not: cmake --install BUILD --prefix FOLDER, then FOLDER/bin/hekla plugin "
                        "install",
                        given_.string(), prefix.string()));
    fs::path source = root_;
    if (!unpacked_) { // what the user has is not changed
        HK_ASSIGN(TemporaryFolder copy, TemporaryFolder::make());
        HK_TRY(copy_sources(root_, copy.path(), stop));
        source = copy.path();
        copied_.emplace(std::move(copy));
    }
    const fs::path build = source / "build";
    std::vector<std::vector<std::string>> commands;
    if (fs::exists(source / "build.sh", problem))
        commands = {{"/usr/bin/env", "HEKLA=" + prefix.string(), "sh", (source / "build.sh").string()}};
    else
        commands = {{"/usr/bin/env", "cmake", "-S", source.string(), "-B", build.string(),
                     "-DCMAKE_PREFIX_PATH=" + prefix.string(), "-DCMAKE_BUILD_TYPE=Release"},
                    {"/usr/bin/env", "cmake", "--build", build.string()}};
    for (const std::vector<std::string>& command : commands) {
        HK_ASSIGN(const ChildResult ran, run_child(command, {kLongestBuildSeconds, 0, stop}));
        if (ran.stopped) return Status(Code::cancelled, "stopped while it was built; nothing was installed");
        const std::string shown = fmt::format("{}", fmt::join(command.begin() + 1, command.end(), " "));
        if (ran.timed_out)
            return failed_precondition(
                fmt::format("{}: {} did not end within {:.0f} s", given_.string(), shown, kLongestBuildSeconds));
        if (ran.status != 0)
            return failed_precondition(
                fmt::format("{}: {} failed:\n{}{}", given_.string(), shown, tail(ran.out), tail(ran.error)));
    }
    std::vector<fs::path> manifests = built_manifests(build / "plugins");
    if (manifests.empty())
        return failed_precondition(
            fmt::format("{}: its build wrote no NAME.json with a library into build/plugins/", given_.string()));
    return manifests;
}

} // namespace hekla::app
