#include "base/temporary_folder.hpp"

#include "base/path_text.hpp"
#include "base/system_file.hpp"

#include <fmt/format.h>
#include <utility>

namespace hekla {

Result<TemporaryFolder> TemporaryFolder::make() {
    std::error_code problem;
    std::string name = path_text(std::filesystem::temp_directory_path(problem) / "hekla-XXXXXX");
    if (problem) return io_error(fmt::format("the system has no folder for temporary files: {}", problem.message()));
    if (const std::error_code refused = make_private_folder(name))
        return io_error(fmt::format("{}: cannot create a folder: {}", name, refused.message()));
    return TemporaryFolder(path_of(name));
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

} // namespace hekla
