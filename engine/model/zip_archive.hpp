// A zip archive in memory, read by the module libhekla_zip.
#pragma once

#include "base/module.hpp"
#include "model/zip_module.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace hekla::model {

class ZipArchive {
public:
    // The bytes must outlive this. lack: the message if the module is missing: which feature needs it. Errors:
    // unsupported (no module), corrupt.
    static Result<ZipArchive> open(std::span<const std::byte> bytes, const char* lack);
    ZipArchive(ZipArchive&& other) noexcept;
    ZipArchive& operator=(ZipArchive&&) = delete;
    ~ZipArchive();

    int64_t count() const { return module_->count(zip_); }
    std::string_view name(int64_t entry) const; // "" if it has none that can be read
    int64_t find(const std::string& name) const { return module_->find(zip_, name.c_str()); } // -1: there is none
    // Returns whether an entry's bytes stand in the archive as they are: neither compressed nor encrypted. `size`: of
    // the entry, as the archive declares it. Error: corrupt.
    Result<bool> stored(int64_t entry, uint64_t& size) const;
    // Reads an entry of `size` bytes, the declared size, and compares its checksum. Error: corrupt.
    Result<std::unique_ptr<std::byte[]>> read(int64_t entry, uint64_t size) const;

private:
    ZipArchive(Module<HeklaZipInterface> module, void* zip) : module_(std::move(module)), zip_(zip) {}
    Status failure(int64_t entry, const char* why) const;
    Module<HeklaZipInterface> module_;
    void* zip_ = nullptr;
};

} // namespace hekla::model
