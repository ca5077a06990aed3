// The file of a plugin library, opened once, so that the loaded file is the hashed one even if the path is replaced in
// between.
#pragma once

#include "base/file_handle.hpp"
#include "base/shared_library.hpp"
#include "base/status.hpp"

#include <string>

namespace hekla::plugin {

class LibraryFile {
public:
    // Errors: not_found.
    static Result<LibraryFile> open(const std::string& path);

    // Returns the SHA-256 of the whole file, in hexadecimal.
    Result<std::string> sha256() const;

    // Loads the open file (load_open_file). Errors: not_found.
    Result<const SharedLibrary*> load() &&;

private:
    LibraryFile(std::string path, FileHandle file) : path_(std::move(path)), file_(std::move(file)) {}
    std::string path_;
    FileHandle file_;
};

} // namespace hekla::plugin
