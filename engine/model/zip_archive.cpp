#include "model/zip_archive.hpp"

#include "base/shared_library.hpp"
#include "model/tensor.hpp"

#include <fmt/format.h>
#include <utility>
#include <zip.h>

#define HK_ZIP_FUNCTIONS(use)                                                                                          \
    use(discard) use(error_fini) use(error_init) use(error_strerror) use(fclose) use(file_get_error) use(fopen_index)  \
        use(fread) use(get_error) use(get_name) use(get_num_entries) use(name_locate) use(open_from_source)            \
            use(source_buffer_create) use(source_free) use(stat_index) use(stat_init)

namespace hekla::model {

struct ZipArchive::Library {
    SharedLibrary file;
#define HK_ZIP_MEMBER(name) decltype(&zip_##name) name = nullptr;
    HK_ZIP_FUNCTIONS(HK_ZIP_MEMBER)
#undef HK_ZIP_MEMBER
};

Result<std::unique_ptr<const ZipArchive::Library>> ZipArchive::load(const char* purpose) {
    auto library = std::make_unique<Library>();
    std::string reason;
    // Two numbers of the same functions: Debian 12 and Ubuntu 24.04 have the older one.
    for (const char* const name : {"libzip.so.5", "libzip.so.4"}) {
        library->file = SharedLibrary::open(name, reason);
        if (library->file) break;
    }
    if (!library->file)
        return unsupported(fmt::format("{}, and the zip library was not found ({}): install libzip5, or libzip4 on "
                                       "Debian 12 and Ubuntu 24.04",
                                       purpose, reason));
#define HK_ZIP_FIND(name)                                                                                              \
    library->name = reinterpret_cast<decltype(library->name)>(library->file.symbol("zip_" #name));                     \
    if (library->name == nullptr)                                                                                      \
        return unsupported(fmt::format("{}, and the system's zip library has no function zip_{}: install libzip 1.7 "  \
                                       "or newer",                                                                     \
                                       purpose, #name));
    HK_ZIP_FUNCTIONS(HK_ZIP_FIND)
#undef HK_ZIP_FIND
    return std::unique_ptr<const Library>(std::move(library));
}

Result<ZipArchive> ZipArchive::open(std::span<const std::byte> bytes, const char* purpose) {
    HK_ASSIGN(auto library, load(purpose));
    zip_error_t error;
    library->error_init(&error);
    zip* opened = nullptr;
    zip_source_t* const source = library->source_buffer_create(bytes.data(), bytes.size(), 0, &error);
    if (source != nullptr) {
        opened = library->open_from_source(source, ZIP_RDONLY, &error);
        if (opened == nullptr) library->source_free(source);
    }
    const std::string why = opened == nullptr ? library->error_strerror(&error) : "";
    library->error_fini(&error);
    if (opened == nullptr) return corrupt(fmt::format("its zip archive cannot be read: {}", why));
    return ZipArchive(std::move(library), opened);
}

ZipArchive::ZipArchive(std::unique_ptr<const Library> library, zip* opened)
    : library_(std::move(library)), zip_(opened) {}

ZipArchive::ZipArchive(ZipArchive&& other) noexcept
    : library_(std::move(other.library_)), zip_(std::exchange(other.zip_, nullptr)) {}

ZipArchive::~ZipArchive() {
    if (zip_ != nullptr) library_->discard(zip_);
}

int64_t ZipArchive::count() const { return library_->get_num_entries(zip_, 0); }

int64_t ZipArchive::find(const std::string& name) const { return library_->name_locate(zip_, name.c_str(), 0); }

std::string_view ZipArchive::name(int64_t entry) const {
    const char* const name = library_->get_name(zip_, static_cast<zip_uint64_t>(entry), 0);
    return name == nullptr ? "" : name;
}

Result<bool> ZipArchive::stored(int64_t entry, uint64_t& size) const {
    zip_stat_t stat;
    library_->stat_init(&stat);
    if (library_->stat_index(zip_, static_cast<zip_uint64_t>(entry), 0, &stat) != 0 ||
        (stat.valid & ZIP_STAT_SIZE) == 0 || (stat.valid & ZIP_STAT_COMP_METHOD) == 0)
        return failure(entry, "has no size or no compression method");
    size = stat.size;
    const bool encrypted = (stat.valid & ZIP_STAT_ENCRYPTION_METHOD) != 0 && stat.encryption_method != ZIP_EM_NONE;
    return stat.comp_method == ZIP_CM_STORE && !encrypted;
}

Result<std::unique_ptr<std::byte[]>> ZipArchive::read(int64_t entry, uint64_t size) const {
    zip_file_t* const file = library_->fopen_index(zip_, static_cast<zip_uint64_t>(entry), 0);
    if (file == nullptr) return failure(entry, library_->error_strerror(library_->get_error(zip_)));
    // One byte more than expected, because the checksum is only compared at the end of the entry.
    auto bytes = std::make_unique<std::byte[]>(static_cast<std::size_t>(size) + 1);
    uint64_t got = 0;
    zip_int64_t part = 0;
    do {
        part = library_->fread(file, bytes.get() + got, size + 1 - got);
        if (part > 0) got += static_cast<uint64_t>(part);
    } while (part > 0 && got <= size);
    const std::string why = part < 0 ? library_->error_strerror(library_->file_get_error(file)) : "";
    library_->fclose(file);
    if (part < 0) return failure(entry, why.c_str());
    if (got != size) return failure(entry, got > size ? "is longer than it declares" : "is shorter than it declares");
    return bytes;
}

Status ZipArchive::failure(int64_t entry, const char* why) const {
    return corrupt(fmt::format("{} in its zip archive: {}", in_quotes(name(entry)), why));
}

} // namespace hekla::model
