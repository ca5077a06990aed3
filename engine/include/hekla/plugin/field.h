// One field of a batch: a named tensor on the host.
//
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.
// clang-format off
#ifndef HEKLA_PLUGIN_FIELD_H
#define HEKLA_PLUGIN_FIELD_H

#include "abi.h"

// Described by an objective's fields(), its storage filled by collate(), and read by a head's decode().
typedef struct hk_field {
    uint32_t struct_size;
    int32_t kind;      // HK_KIND_INT32 or HK_KIND_FLOAT32
    hk_string name;
    uint32_t rank;
    uint32_t reserved; // zero
    int64_t dims[HK_MAX_RANK];
    void* data;        // int32_t or float values, row-major, zeroed by the host; null in fields()
} hk_field;

#endif
