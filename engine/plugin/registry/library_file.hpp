// The file of a plugin library, opened once, so that the loaded file is the hashed one even if the path is replaced in
// between.
#pragma once

#include "base/descriptor.hpp"
#include "base/status.hpp"

#include <string>

namespace hekla::plugin {

class LibraryFile {
public:
    // Errors: not_found.
    static Result<LibraryFile> open(const std::string& path);

    // Returns the SHA-256 of the whole file, in hexadecimal.
    Result<std::string> sha256() const;

    // Loads the open file with RTLD_NOW | RTLD_LOCAL and returns the handle of dlopen(). It stays loaded until the
    // process ends. Debuggers, dladdr() and backtraces show the path that it was opened by. Errors: not_found.
    Result<void*> load() &&;

private:
    LibraryFile(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}
    std::string path_;
    Descriptor file_;
};

} // namespace hekla::plugin
