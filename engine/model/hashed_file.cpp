#include "model/hashed_file.hpp"

#include "base/path_text.hpp"
#include "base/system_file.hpp"

#include <fmt/format.h>
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
    return HashedFile(std::move(file), path_text(path.filename()), std::make_unique<State>());
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
    std::error_code problem;
    const auto failed = [&path, &problem](const char* what) {
        const Code code = problem == std::errc::no_such_file_or_directory ? Code::not_found : Code::io;
        return Status(code, fmt::format("{}: {}: {}", path_text(path), what, problem.message()));
    };
    const FileHandle file = open_to_read(path, problem);
    if (problem) return failed("cannot open");
    const FileFacts facts = facts_of(file, problem);
    if (problem) return failed("cannot inspect");
    if (facts.kind != FileKind::regular)
        return Status(Code::io, fmt::format("{}: is not a regular file", path_text(path)));
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    FileRecord record{path_text(path.filename()), 0, {}};
    std::vector<char> buffer(std::size_t{1} << 20);
    for (;;) {
        const std::size_t got = read_some(file, buffer.data(), buffer.size(), problem);
        if (problem) return failed("cannot read");
        if (got == 0) break;
        XXH3_128bits_update(&state, buffer.data(), got);
        record.size += got;
    }
    const XXH128_hash_t hash = XXH3_128bits_digest(&state);
    record.hash = {hash.high64, hash.low64};
    return record;
}

} // namespace hekla::model
