// A folder among the system's temporary files, deleted with the object.
#pragma once

#include "base/status.hpp"

#include <filesystem>

namespace hekla {

class TemporaryFolder {
public:
    // Error: io, with the path.
    static Result<TemporaryFolder> make();
    TemporaryFolder(TemporaryFolder&& other) noexcept;
    TemporaryFolder& operator=(TemporaryFolder&&) = delete;
    ~TemporaryFolder();
    const std::filesystem::path& path() const { return path_; }

private:
    explicit TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {}
    std::filesystem::path path_; // empty after a move
};

} // namespace hekla
