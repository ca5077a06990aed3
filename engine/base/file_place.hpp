// A path to a file or a folder on disk, or among files held in memory.
#pragma once

#include "base/status.hpp"

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace hekla {

// Files of one folder in memory, by their plain names.
using HeldFiles = std::map<std::string, std::string_view, std::less<>>;

// A replacement for std::filesystem::path. Thread: any.
class FilePlace {
public:
    FilePlace(std::filesystem::path path) : path_(std::move(path)) {}
    // Refers to a folder of files in memory, which must outlive it; `name` is its name in messages.
    FilePlace(const HeldFiles& files, std::filesystem::path name)
        : path_(std::move(name)), folder_(path_), files_(&files) {}

    std::string string() const { return path_.string(); }
    std::filesystem::path filename() const { return path_.filename(); }
    std::filesystem::path extension() const { return path_.extension(); }
    FilePlace parent_path() const { return at(path_.parent_path()); }
    FilePlace operator/(std::string_view name) const { return at(path_ / name); }

    bool exists() const;
    bool is_file() const;
    bool is_folder() const;
    // Like read_file().
    Result<std::string> read() const;

private:
    FilePlace at(std::filesystem::path path) const;
    const std::string_view* held() const; // null if it is not a file in memory
    std::filesystem::path path_, folder_;
    const HeldFiles* files_ = nullptr; // null: on disk
};

} // namespace hekla
