#include "base/temporary_folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <utility>

namespace hekla {

Result<TemporaryFolder> TemporaryFolder::make() {
    std::error_code problem;
    std::string name = (std::filesystem::temp_directory_path(problem) / "hekla-XXXXXX").string();
    if (problem) return io_error(fmt::format("the system has no folder for temporary files: {}", problem.message()));
    if (::mkdtemp(name.data()) == nullptr)
        return io_error(fmt::format("{}: cannot create a folder: {}", name, std::strerror(errno)));
    return TemporaryFolder(std::filesystem::path(name));
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

} // namespace hekla
