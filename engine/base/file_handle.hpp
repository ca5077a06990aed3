// An owned open file of the system, and what identifies a file.
#pragma once

#include <compare>
#include <cstdint>
#include <system_error>
#include <utility>

namespace hekla {

using NativeFile = int; // the system's number of an open file: a descriptor

// An open file, folder, pipe or socket, closed with the object.
class FileHandle {
public:
    static constexpr NativeFile kNone = -1;

    explicit FileHandle(NativeFile number = kNone) : number_(number) {}
    FileHandle(FileHandle&& other) noexcept : number_(std::exchange(other.number_, kNone)) {}
    FileHandle& operator=(FileHandle&& other) noexcept {
        if (this != &other) {
            close();
            number_ = std::exchange(other.number_, kNone);
        }
        return *this;
    }
    ~FileHandle() { close(); }
    bool is_open() const { return number_ != kNone; }
    NativeFile get() const { return number_; }
    // Returns the system's reason if data that was written may be lost. Not open afterwards in any case.
    std::error_code close() noexcept;

private:
    NativeFile number_;
};

// Two paths with equal identities name the same file.
struct FileIdentity {
    uint64_t device = 0, number = 0;
    auto operator<=>(const FileIdentity&) const = default;
};

} // namespace hekla
