// Libraries that are loaded at run time.
#pragma once

#include "base/file_handle.hpp"

#include <filesystem>
#include <string>
#include <utility>

namespace hekla {

// A loaded library, released with the object. Thread: any.
class SharedLibrary {
public:
    SharedLibrary() = default; // none
    // Loads a library and all that it needs at once, hidden from other libraries. name: a path, or a file name that the
    // system searches for. After an error the result is none, and `reason` the system's text, empty if there is none.
    static SharedLibrary open(const std::string& name, std::string& reason);
    SharedLibrary(SharedLibrary&& other) noexcept
        : handle_(std::exchange(other.handle_, nullptr)), name_(std::move(other.name_)) {}
    SharedLibrary& operator=(SharedLibrary&& other) noexcept {
        std::swap(handle_, other.handle_);
        std::swap(name_, other.name_);
        return *this;
    }
    ~SharedLibrary();

    explicit operator bool() const { return handle_ != nullptr; }
    // Returns the address of an exported function or variable; null: there is none.
    void* symbol(const char* name) const;
    // Keeps the library in the process when the object is destroyed.
    void pin() const;

private:
    friend const SharedLibrary* load_open_file(FileHandle& file, const std::string& path, std::string& reason);
    void* handle_ = nullptr;
    std::string name_; // given to open()
};

// Loads an open file as a library, even if `path`, by which it was opened, names another file by now. Loads a file only
// once. The library stays in the process until it ends; debuggers, dladdr() and backtraces show `path`. After a success
// `file` is not open any more; after an error the result is null, and `reason` the system's text.
const SharedLibrary* load_open_file(FileHandle& file, const std::string& path, std::string& reason);

// Returns the path of the library or program that contains the address, as the system knows it; empty if it does not.
std::string file_of(const void* address);
// Returns a path that opens the program of this process.
std::filesystem::path program_file();

} // namespace hekla
