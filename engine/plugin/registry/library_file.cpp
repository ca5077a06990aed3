#include "plugin/registry/library_file.hpp"

#include "base/file.hpp"
#include "base/sha256.hpp"
#include "base/system_file.hpp"
#include "plugin/registry/processor.hpp"

#include <array>
#include <fmt/format.h>

namespace hekla::plugin {
namespace {

// Returns the message for a library of another processor, which the linker passes over as a file that does not exist;
// empty for any other library.
std::string built_for_another(const FileHandle& file) {
    std::array<char, kElfHeaderSize> header{};
    std::error_code ignored;
    const std::size_t size = read_at(file, 0, header.data(), header.size(), ignored);
    const std::string other = other_processor({header.data(), size});
    if (other.empty()) return {};
    return fmt::format("cannot be loaded: it was built for {}, and this process runs on {}: install a build for {}, or "
                       "build it here from its sources",
                       other, own_processor(), own_processor());
}

} // namespace

Result<LibraryFile> LibraryFile::open(const std::string& path) {
    std::error_code problem;
    FileHandle file = open_to_read(path, problem);
    if (problem) return not_found(fmt::format("cannot be opened: {}", problem.message()));
    return LibraryFile(path, std::move(file));
}

Result<std::string> LibraryFile::sha256() const {
    // Not mapped: another process may shorten the file meanwhile, which would end this one.
    HK_ASSIGN(const std::string content, read_file(path_of_open_file(file_)));
    return sha256_hex(content);
}

Result<const SharedLibrary*> LibraryFile::load() && {
    std::string reason;
    if (const SharedLibrary* const library = load_open_file(file_, path_, reason)) return library;
    if (const std::string other = built_for_another(file_); !other.empty()) return not_found(other);
    return not_found(fmt::format("cannot be loaded: {}", reason));
}

} // namespace hekla::plugin
