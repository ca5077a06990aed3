#include "base/file.hpp"

#include "base/path_text.hpp"
#include "base/system_file.hpp"
#include "base/unique_name.hpp"

#include <algorithm>
#include <ctime>
#include <fmt/format.h>
#include <vector>

namespace hekla {
namespace {

Status system_error(const char* what, const std::filesystem::path& path, const std::error_code& problem) {
    const Code code = problem == std::errc::no_such_file_or_directory ? Code::not_found : Code::io;
    return {code, fmt::format("{}: {}: {}", path_text(path), what, problem.message())};
}

const char* name_of(FileKind kind) {
    switch (kind) {
    case FileKind::regular: return "a regular file";
    case FileKind::folder: return "a folder";
    case FileKind::pipe: return "a pipe";
    case FileKind::socket: return "a socket";
    case FileKind::device: break;
    }
    return "a device";
}

// Opens a regular file for reading. Never blocks: other file types, such as a pipe without a writer, are refused.
Result<FileHandle> open_regular(const std::filesystem::path& path, uint64_t& size) {
    std::error_code problem;
    FileHandle file = open_to_read(path, problem);
    if (problem) return system_error("cannot open", path, problem);
    const FileFacts facts = facts_of(file, problem);
    if (problem) return system_error("cannot inspect", path, problem);
    if (facts.kind != FileKind::regular)
        return io_error(fmt::format("{}: is {}, a regular file was expected", path_text(path), name_of(facts.kind)));
    size = facts.size;
    return file;
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
    return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

} // namespace

Result<std::string> read_file(const std::filesystem::path& path, uint64_t most_bytes) {
    uint64_t expected = 0;
    HK_ASSIGN(const FileHandle file, open_regular(path, expected));
    const auto too_long = [&](uint64_t size) {
        return corrupt(
            fmt::format("{}: is {} bytes long, at most {} were expected", path_text(path), size, most_bytes));
    };
    if (expected > most_bytes) return too_long(expected);
    std::string content;
    content.reserve(static_cast<std::size_t>(expected));
    char buffer[1 << 16];
    for (;;) {
        std::error_code problem;
        const std::size_t got = read_some(file, buffer, sizeof buffer, problem);
        if (problem) return system_error("cannot read", path, problem);
        if (got == 0) return content;
        content.append(buffer, got);
        if (content.size() > most_bytes) return too_long(content.size()); // the file grew meanwhile
    }
}

bool is_plain_file_name(std::string_view name) {
    if (name.empty() || name.size() > 255 || name == "." || name == "..") return false;
    return std::all_of(name.begin(), name.end(), [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return c != '/' && c != '\\' && c != ':' && byte >= 0x20 && byte != 0x7f;
    });
}

Status sync_path(const std::filesystem::path& path) {
    std::error_code problem;
    const FileHandle file = open_to_read(path, problem);
    if (problem) return system_error("cannot open", path, problem);
    problem = sync_file(file);
    // Some file systems cannot sync a folder.
    if (problem && problem != std::errc::invalid_argument) return system_error("cannot sync", path, problem);
    return {};
}

Status write_file_atomically(const std::filesystem::path& path, std::string_view content) {
    HK_ASSIGN(AtomicFile file, AtomicFile::create(path));
    HK_TRY(file.write(content));
    return file.commit();
}

void remove_leftovers(const std::filesystem::path& path) noexcept {
    constexpr std::size_t kDrawn = 6;  // letters that make_unique_name() draws
    constexpr std::time_t kFresh = 10; // seconds; a writer locks its file shortly after creating it
    try {
        const std::string stem = path_text(path.filename()) + ".tmp.";
        std::error_code error;
        std::vector<std::filesystem::path> leftovers;
        for (std::filesystem::directory_iterator entry(folder_of(path), error), end; !error && entry != end;
             entry.increment(error)) {
            const std::string name = path_text(entry->path().filename());
            if (name.size() == stem.size() + kDrawn && name.starts_with(stem)) leftovers.push_back(entry->path());
        }
        for (const std::filesystem::path& leftover : leftovers) {
            const FileHandle file = open_to_read(leftover, error, Links::refuse);
            if (error) continue;
            const FileFacts facts = facts_of(file, error);
            if (error || facts.kind != FileKind::regular) continue;
            const bool is_fresh = facts.modified + kFresh > std::time(nullptr);
            if (!is_fresh && try_lock_file(file, error) == Lock::taken) remove_file(leftover);
        }
    } catch (const std::exception&) { // out of memory: retried next time
    }
}

AtomicFile::AtomicFile(std::filesystem::path path, std::filesystem::path temporary, FileHandle file)
    : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept = default;

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
    if (this != &other) {
        discard();
        path_ = std::move(other.path_);
        temporary_ = std::move(other.temporary_);
        file_ = std::move(other.file_);
    }
    return *this;
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
    if (!file_.is_open()) return;
    file_.close();
    remove_file(temporary_);
}

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& path) {
    std::string temporary = path_text(path) + ".tmp.XXXXXX";
    FileHandle file;
    std::error_code problem = make_unique_name(temporary, [&file](const std::string& name) {
        std::error_code refused;
        file = create_new(path_of(name), refused);
        return refused;
    });
    if (problem) return system_error("cannot create a temporary file in its folder", path, problem);
    (void)try_lock_file(file, problem); // tells remove_leftovers() that the writer is alive
    return AtomicFile(path, path_of(temporary), std::move(file));
}

Status AtomicFile::write(std::string_view bytes) {
    const std::error_code problem = write_all(file_, bytes);
    return problem ? system_error("cannot write", path_, problem) : Status();
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
    return write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

Status AtomicFile::commit() {
    if (const std::error_code problem = sync_file(file_)) return system_error("cannot sync", path_, problem);
    if (const std::error_code problem = file_.close()) {
        remove_file(temporary_);
        return system_error("cannot close", path_, problem);
    }
    if (const std::error_code problem = rename_path(temporary_, path_)) {
        remove_file(temporary_);
        return system_error("cannot rename a new file to it", path_, problem);
    }
    return sync_path(folder_of(path_));
}

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
    uint64_t size = 0;
    HK_ASSIGN(const FileHandle file, open_regular(path, size));
    MappedFile mapped;
    if (size == 0) return mapped;
    std::error_code problem;
    mapped.data_ = map_file(file, static_cast<std::size_t>(size), problem);
    if (problem) return system_error("cannot map", path, problem);
    mapped.size_ = static_cast<std::size_t>(size);
    return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

MappedFile::~MappedFile() {
    if (data_ != nullptr) unmap_file(data_, size_);
}

} // namespace hekla
