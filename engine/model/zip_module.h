/* The interface of libhekla_zip: the entries of a zip archive in memory. Errors are texts that stay valid until the
   archive is used again or closed. */
#ifndef HEKLA_ZIP_MODULE_H
#define HEKLA_ZIP_MODULE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEKLA_ZIP_VERSION 1

struct HeklaZipInterface {
    uint32_t struct_size;
    /* `bytes` must outlive the archive. Call close() also if error() is not null. Returns null if memory is exhausted.
     */
    void* (*open)(const void* bytes, uint64_t size);
    void (*close)(void* archive);
    const char* (*error)(void* archive); /* of the last call; null: there was none */
    int64_t (*count)(void* archive);
    const char* (*name)(void* archive, int64_t entry); /* null: it has none that can be read */
    int64_t (*find)(void* archive, const char* name);  /* -1: there is none */
    /* 1: `size` is its size, and its bytes stand in the archive as they are; 0: compressed, or encrypted; -1: error().
     */
    int32_t (*stored)(void* archive, int64_t entry, uint64_t* size);
    /* At most `size` bytes from its beginning, and its checksum compared where that is its end: how many; -1: error().
     */
    int64_t (*read)(void* archive, int64_t entry, void* to, uint64_t size);
};

/* The module's one function; null for another version. */
typedef const struct HeklaZipInterface* (*HeklaZipEntry)(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
