#include "base/installed_path.hpp"

#include "base/module.hpp"

namespace hekla {

std::string installed_path(std::string_view name) {
    constexpr std::string_view kApps = "apps/";
    const std::filesystem::path share = own_folder().parent_path() / "share";
    const std::filesystem::path file =
        name.starts_with(kApps) ? share / "hekla" / name.substr(kApps.size()) : share / "doc" / "hekla" / name;
    std::error_code problem;
    return std::filesystem::exists(file, problem) ? file.string() : std::string(name);
}

} // namespace hekla
