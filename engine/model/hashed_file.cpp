#include "model/hashed_file.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace hekla::model {

struct HashedFile::State {
    XXH3_state_t xxh; // aligned by its own declaration
    State() { XXH3_128bits_reset(&xxh); }
    Hash128 digest() const {
        const XXH128_hash_t hash = XXH3_128bits_digest(&xxh);
        return {hash.high64, hash.low64};
    }
};

HashedFile::HashedFile(AtomicFile file, std::string name, std::unique_ptr<State> state)
    : file_(std::move(file)), name_(std::move(name)), state_(std::move(state)) {}
HashedFile::HashedFile(HashedFile&& other) noexcept = default;
HashedFile& HashedFile::operator=(HashedFile&& other) noexcept = default;
HashedFile::~HashedFile() = default;

Result<HashedFile> HashedFile::create(const std::filesystem::path& path) {
    HK_ASSIGN(AtomicFile file, AtomicFile::create(path));
    return HashedFile(std::move(file), path.filename().string(), std::make_unique<State>());
}

Status HashedFile::write(std::span<const std::byte> bytes) {
    HK_TRY(file_.write(bytes));
    XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
    size_ += bytes.size();
    return {};
}

Status HashedFile::write(std::string_view bytes) {
    return write(std::as_bytes(std::span<const char>(bytes.data(), bytes.size())));
}

Result<FileRecord> HashedFile::commit() {
    HK_TRY(file_.commit());
    return FileRecord{name_, size_, state_->digest()};
}

Result<FileRecord> hash_file(const std::filesystem::path& path) {
    struct Descriptor {
        int number;
        ~Descriptor() {
            if (number >= 0) ::close(number);
        }
    };
    const auto failed = [&path](const char* what) {
        const Code code = errno == ENOENT ? Code::not_found : Code::io;
        return Status(code, fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno)));
    };
    // Without O_NONBLOCK a pipe in place of the file would block open().
    const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (file.number < 0) return failed("cannot open");
    struct stat info {};
    if (::fstat(file.number, &info) != 0) return failed("cannot inspect");
    if (!S_ISREG(info.st_mode)) return Status(Code::io, fmt::format("{}: is not a regular file", path.string()));
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    FileRecord record{path.filename().string(), 0, {}};
    std::vector<char> buffer(std::size_t{1} << 20);
    for (;;) {
        const ssize_t got = ::read(file.number, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return failed("cannot read");
        if (got == 0) break;
        XXH3_128bits_update(&state, buffer.data(), static_cast<std::size_t>(got));
        record.size += static_cast<uint64_t>(got);
    }
    const XXH128_hash_t hash = XXH3_128bits_digest(&state);
    record.hash = {hash.high64, hash.low64};
    return record;
}

} // namespace hekla::model
