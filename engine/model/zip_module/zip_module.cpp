// libhekla_zip: the zip library with a C interface of one function, in a separate module, because only PyTorch
// checkpoints need it and it depends on a cryptography library.
#include "model/zip_module.h"

#include <new>
#include <string>
#include <zip.h>

namespace {

struct Archive {
    zip_t* zip = nullptr;
    std::string error;
};

Archive& of(void* archive) { return *static_cast<Archive*>(archive); }

void* open_archive(const void* bytes, uint64_t size) {
    auto* archive = new (std::nothrow) Archive;
    if (archive == nullptr) return nullptr;
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t* source = zip_source_buffer_create(bytes, size, 0, &error);
    if (source != nullptr) {
        archive->zip = zip_open_from_source(source, ZIP_RDONLY, &error);
        if (archive->zip == nullptr) zip_source_free(source);
    }
    if (archive->zip == nullptr) archive->error = zip_error_strerror(&error);
    zip_error_fini(&error);
    return archive;
}

void close_archive(void* archive) {
    if (of(archive).zip != nullptr) zip_discard(of(archive).zip);
    delete &of(archive);
}

const char* error_of(void* archive) { return of(archive).error.empty() ? nullptr : of(archive).error.c_str(); }

int64_t count(void* archive) { return zip_get_num_entries(of(archive).zip, 0); }

const char* name_of(void* archive, int64_t entry) {
    return zip_get_name(of(archive).zip, static_cast<zip_uint64_t>(entry), 0);
}

int64_t find(void* archive, const char* name) { return zip_name_locate(of(archive).zip, name, 0); }

int32_t stored(void* archive, int64_t entry, uint64_t* size) {
    of(archive).error.clear();
    zip_stat_t stat;
    zip_stat_init(&stat);
    if (zip_stat_index(of(archive).zip, static_cast<zip_uint64_t>(entry), 0, &stat) != 0 ||
        (stat.valid & ZIP_STAT_SIZE) == 0 || (stat.valid & ZIP_STAT_COMP_METHOD) == 0) {
        of(archive).error = "has no size or no compression method";
        return -1;
    }
    *size = stat.size;
    const bool encrypted = (stat.valid & ZIP_STAT_ENCRYPTION_METHOD) != 0 && stat.encryption_method != ZIP_EM_NONE;
    return stat.comp_method == ZIP_CM_STORE && !encrypted ? 1 : 0;
}

int64_t read(void* archive, int64_t entry, void* to, uint64_t size) {
    Archive& a = of(archive);
    a.error.clear();
    zip_file_t* file = zip_fopen_index(a.zip, static_cast<zip_uint64_t>(entry), 0);
    if (file == nullptr) {
        a.error = zip_error_strerror(zip_get_error(a.zip));
        return -1;
    }
    uint64_t got = 0;
    zip_int64_t part = 0;
    do {
        part = zip_fread(file, static_cast<char*>(to) + got, size - got);
        if (part > 0) got += static_cast<uint64_t>(part);
    } while (part > 0 && got < size);
    if (part < 0) a.error = zip_error_strerror(zip_file_get_error(file));
    zip_fclose(file);
    return part < 0 ? -1 : static_cast<int64_t>(got);
}

constexpr HeklaZipInterface kInterface{
    sizeof(HeklaZipInterface), open_archive, close_archive, error_of, count, name_of, find, stored, read};

} // namespace

extern "C" __attribute__((visibility("default"))) const HeklaZipInterface* hekla_zip_interface(uint32_t version);
extern "C" const HeklaZipInterface* hekla_zip_interface(uint32_t version) {
    return version == HEKLA_ZIP_VERSION ? &kInterface : nullptr;
}
