// An architecture: the body of a network, from fields of the batch to ports, and its own ("native") heads.
//
// - create() may be called many times, in many processes; instances share no state. After HK_OK *self is not null;
//   destroy() is called with it once. [architecture.1]
// - The same fields and mode give the same graph, whatever was built before. [architecture.2]
// - create() with the output of write_config() gives the same network. [architecture.3]
//
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.
// clang-format off
#ifndef HEKLA_PLUGIN_ARCHITECTURE_H
#define HEKLA_PLUGIN_ARCHITECTURE_H

#include "config.h"
#include "entry.h"
#include "graph.h"

#define HK_ARCHITECTURE_INTERFACE "hekla.architecture/1"

typedef struct hk_architecture {
    // Reads the configuration (config.json of the reference, completed by the manifest's defaults). config is valid
    // during the call only. [architecture.1]
    // [any-thread]
    int32_t(HK_ABI* create)(const hk_config* config, void** self, hk_error* error);

    // Frees what create() made.
    // [any-thread]
    void(HK_ABI* destroy)(void* self);

    // Describes the body and offers its ports. [architecture.2]
    // [describe]
    int32_t(HK_ABI* build)(void* self, hk_builder* builder, hk_error* error);

    // Describes the architecture's own head of that id, eg: "lm", after build() on the same builder, so that the
    // ports exist. Returns HK_NOT_FOUND, with error untouched, if it has no such head; a head plugin of that id is
    // then used.
    // [describe]
    int32_t(HK_ABI* build_head)(void* self, hk_builder* builder, hk_string head, hk_error* error);

    // Writes config.json as the reference implementation reads it. [architecture.3]
    // [any-thread]
    int32_t(HK_ABI* write_config)(void* self, hk_config_writer* writer, hk_error* error);
} hk_architecture;

#endif
