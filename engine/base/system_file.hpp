// The system's calls for files and folders. Like std::filesystem, they report the system's reason as an error code,
// which is empty after a success; callers compose the message. Calls that a signal interrupts are repeated. Child
// processes do not inherit the handles, and bytes are read and written unchanged.
#pragma once

#include "base/file_handle.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace hekla {

enum class FileKind : uint8_t { regular, folder, pipe, socket, device };

struct FileFacts {
    FileKind kind = FileKind::regular;
    uint64_t size = 0; // bytes
    FileIdentity identity;
    int64_t modified = 0; // seconds since 1970
};

// Which users may write to a file or folder, besides the one who runs this process.
struct Writers {
    bool owner = false;    // the owner, if that is neither this user nor the administrator
    bool group = false;    // its group, if that is not the group of this process
    bool everyone = false; // all users
    bool is_folder = false;
    bool renames_own_only = false; // in this folder, users may rename and remove only what they own
};

// Opening. After an error the handle is not open.
enum class Links : uint8_t { follow, refuse }; // what a symbolic link at the path means
enum class Missing : uint8_t { fail, create };
// Opens anything for reading, a folder too, and never waits for the other end of a pipe.
FileHandle open_to_read(const std::filesystem::path& path, std::error_code& problem, Links links = Links::follow);
FileHandle open_folder(const std::filesystem::path& path, std::error_code& problem);
// Each write is appended at the end, also if several processes write.
FileHandle open_to_append(const std::filesystem::path& path, Missing missing, std::error_code& problem);
// Creates a file, or empties an existing one.
FileHandle create_or_empty(const std::filesystem::path& path, std::error_code& problem);
// Creates a file to read and write. Error: file_exists, also for a link to nothing.
FileHandle create_new(const std::filesystem::path& path, std::error_code& problem);
// Creates a file without a name in `folder`, to read and write, which is deleted when it is closed. `stem`: of the name
// that it has for a moment on file systems without such files.
FileHandle create_nameless(const std::filesystem::path& folder, std::string_view stem, std::error_code& problem);
FileHandle open_or_create_lock(const std::filesystem::path& path, std::error_code& problem);

// Open files.
FileFacts facts_of(const FileHandle& file, std::error_code& problem);
// Returns the number of bytes, 0 at the end of the file. read_at() leaves the position of the file as it is.
std::size_t read_some(const FileHandle& file, char* into, std::size_t size, std::error_code& problem);
std::size_t read_at(const FileHandle& file, uint64_t offset, char* into, std::size_t size, std::error_code& problem);
// Passes all bytes to the system in one call if possible.
std::error_code write_all(const FileHandle& file, std::string_view bytes);
// Creates a file, or replaces its content, without waiting for the disk.
std::error_code write_unsynced(const std::filesystem::path& path, std::string_view bytes);
std::error_code write_to_standard_error(std::string_view bytes);
// Flushes to the disk. Error: invalid_argument, of file systems that cannot flush a folder.
std::error_code sync_file(const FileHandle& file);
std::error_code truncate_file(const FileHandle& file, uint64_t size);
// Locks a file or folder for this handle, without waiting, until the handle is closed or the process ends.
enum class Lock : uint8_t { taken, held_elsewhere, not_supported };
Lock try_lock_file(const FileHandle& file, std::error_code& problem);
// Returns a path by which this process can open the same file, even if it was renamed or replaced.
std::filesystem::path path_of_open_file(const FileHandle& file);
// Maps a file for reading; size: not 0. Returns null after an error. unmap_file() needs the same size.
const void* map_file(const FileHandle& file, std::size_t size, std::error_code& problem);
void unmap_file(const void* data, std::size_t size) noexcept;

// Names.
FileFacts facts_at(const std::filesystem::path& path, std::error_code& problem);
Writers writers_of(const std::filesystem::path& path, std::error_code& problem);
// Returns why this process cannot create files in a folder; empty if it can.
std::error_code check_writable_folder(const std::filesystem::path& folder);
// Replaces an existing file, or an existing empty folder by a folder. Errors: directory_not_empty or file_exists.
std::error_code rename_path(const std::filesystem::path& from, const std::filesystem::path& to) noexcept;
// Exchanges two names in one step. Error: also if the file system or the system cannot.
std::error_code exchange_paths(const std::filesystem::path& a, const std::filesystem::path& b) noexcept;
std::error_code make_folder(const std::filesystem::path& path);
// Creates a folder that only this user can use, with the last six characters of `name` drawn.
std::error_code make_private_folder(std::string& name);
std::error_code remove_file(const std::filesystem::path& path) noexcept;
std::error_code remove_empty_folder(const std::filesystem::path& path) noexcept;

} // namespace hekla
