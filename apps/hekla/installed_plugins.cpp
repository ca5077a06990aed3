#include "installed_plugins.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/path_text.hpp"
#include "base/sha256.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace hekla::app {

namespace fs = std::filesystem;

bool InstalledPlugins::holds(const plugin::Manifest& manifest) const {
    std::error_code problem;
    return fs::equivalent(path_of(manifest.file).parent_path(), folder_, problem) && !problem;
}

Result<fs::path> InstalledPlugins::put(const plugin::Manifest& manifest) {
    constexpr std::size_t kDigits = 12;
    const std::string name(manifest.plugin);
    if (!is_plain_file_name(name + ".json") || name.starts_with('.'))
        return unsupported(
            fmt::format("{}: the name \"{}\" of the plugin cannot be the name of a file", manifest.file, name));
    // Read once: another process may change or shorten the file meanwhile.
    HK_ASSIGN(const std::string library, read_file(path_of(manifest.library)));
    const std::string hash = sha256_hex(library);
    if (!manifest.sha256.empty() && hash != manifest.sha256)
        return corrupt(fmt::format("{}: its sha256 is {}, and {} has {}: build the plugin again", manifest.library,
                                   hash, manifest.file, manifest.sha256));
    HK_ASSIGN(const std::string content, read_file(path_of(manifest.file)));
    nlohmann::ordered_json copy;
    try {
        copy = nlohmann::ordered_json::parse(content);
    } catch (const nlohmann::json::exception& e) { return corrupt(fmt::format("{}: {}", manifest.file, e.what())); }
    const fs::path extension = path_of(manifest.library).extension();
    const std::string file = fmt::format("{}-{}{}", name, hash.substr(0, kDigits), extension.string());
    copy["library"] = file;
    copy["sha256"] = hash;

    std::error_code problem;
    const fs::path place = folder_ / (name + ".json");
    fs::path earlier; // the library that the manifest there names
    if (const Result<std::string> old = read_file(place); old.ok())
        if (const Result<nlohmann::json> parsed = parse_json_object(old.value(), place.string()); parsed.ok())
            if (const auto found = parsed->find("library"); found != parsed->end() && found->is_string())
                if (is_plain_file_name(found->get_ref<const std::string&>()))
                    earlier = folder_ / found->get<std::string>();
    fs::create_directories(folder_, problem);
    if (problem) return io_error(fmt::format("{}: cannot create the folder: {}", folder_.string(), problem.message()));
    HK_TRY(write_file_atomically(folder_ / file, library));
    // The registry does not use what other users may write to.
    constexpr fs::perms kPermissions = fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec |
                                       fs::perms::others_read | fs::perms::others_exec;
    fs::permissions(folder_ / file, kPermissions, problem);
    HK_TRY(write_file_atomically(place, copy.dump(2) + "\n"));
    fs::permissions(place, fs::perms::group_write | fs::perms::others_write, fs::perm_options::remove, problem);
    if (!earlier.empty() && earlier != folder_ / file) fs::remove(earlier, problem);
    return place;
}

Status InstalledPlugins::remove(const plugin::Manifest& manifest) {
    std::error_code problem;
    if (!fs::remove(path_of(manifest.file), problem))
        return io_error(fmt::format("{}: cannot be deleted: {}", manifest.file, problem.message()));
    if (!fs::remove(path_of(manifest.library), problem) && problem)
        return io_error(fmt::format("{}: cannot be deleted: {}", manifest.library, problem.message()));
    return {};
}

} // namespace hekla::app
