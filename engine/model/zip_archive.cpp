#include "model/zip_archive.hpp"

#include "model/tensor.hpp"

#include <fmt/format.h>
#include <utility>

namespace hekla::model {

Result<ZipArchive> ZipArchive::open(std::span<const std::byte> bytes, const char* lack) {
    const ModuleName name{"libhekla_zip.so", "hekla_zip_interface", HEKLA_ZIP_VERSION, "a reader of zip archives",
                          lack};
    HK_ASSIGN(auto module, Module<HeklaZipInterface>::open(name));
    void* const zip = module->open(bytes.data(), bytes.size());
    if (zip == nullptr) return out_of_memory("not enough memory to open a zip archive");
    ZipArchive archive(std::move(module), zip);
    if (const char* error = archive.module_->error(zip); error != nullptr)
        return corrupt(fmt::format("its zip archive cannot be read: {}", error));
    return archive;
}

ZipArchive::ZipArchive(ZipArchive&& other) noexcept
    : module_(std::move(other.module_)), zip_(std::exchange(other.zip_, nullptr)) {}

ZipArchive::~ZipArchive() {
    if (zip_ != nullptr) module_->close(zip_);
}

std::string_view ZipArchive::name(int64_t entry) const {
    const char* const name = module_->name(zip_, entry);
    return name == nullptr ? "" : name;
}

Result<bool> ZipArchive::stored(int64_t entry, uint64_t& size) const {
    const int32_t stored = module_->stored(zip_, entry, &size);
    if (stored < 0) return failure(entry, module_->error(zip_));
    return stored == 1;
}

Result<std::unique_ptr<std::byte[]>> ZipArchive::read(int64_t entry, uint64_t size) const {
    // One byte more than expected, because the checksum is only compared at the end of the entry.
    auto bytes = std::make_unique<std::byte[]>(static_cast<std::size_t>(size) + 1);
    const int64_t got = module_->read(zip_, entry, bytes.get(), size + 1);
    if (got < 0) return failure(entry, module_->error(zip_));
    if (static_cast<uint64_t>(got) != size)
        return failure(entry, static_cast<uint64_t>(got) > size ? "is longer than it declares"
                                                                : "is shorter than it declares");
    return bytes;
}

Status ZipArchive::failure(int64_t entry, const char* why) const {
    return corrupt(fmt::format("{} in its zip archive: {}", in_quotes(name(entry)), why));
}

} // namespace hekla::model
