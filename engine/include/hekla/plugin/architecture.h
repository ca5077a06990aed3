// An architecture: the body of a network, from fields of the batch to ports, and its own ("native") heads.
#ifndef HEKLA_PLUGIN_ARCHITECTURE_H
#define HEKLA_PLUGIN_ARCHITECTURE_H

#include "config.h"
#include "entry.h"
#include "graph.h"

#define HK_ARCHITECTURE_INTERFACE "hekla.architecture/1"

// create() may be called many times, in many processes; instances share nothing.
// self is never null after create() and is given back to destroy() once.
typedef struct hk_architecture {
    // Reads the configuration (config.json of the reference, completed by the manifest's defaults).
    // config is valid during the call only.
    // [any-thread]
    int32_t(HK_ABI* create)(const hk_config* config, void** self, hk_error* error);

    // [any-thread]
    void(HK_ABI* destroy)(void* self);

    // Describes the body and offers its ports. Pure: same fields and mode, same graph.
    // [describe]
    int32_t(HK_ABI* build)(void* self, hk_builder* builder, hk_error* error);

    // Describes the head that this family has under that id, eg: "lm", after build() on the same builder: the ports are
    // there. Returns HK_NOT_FOUND, error untouched, when it has none: a head plugin of that id then serves.
    // [describe]
    int32_t(HK_ABI* build_head)(void* self, hk_builder* builder, hk_string head, hk_error* error);

    // Writes config.json as the reference implementation reads it.
    // [any-thread]
    int32_t(HK_ABI* write_config)(void* self, hk_config_writer* writer, hk_error* error);
} hk_architecture;

#endif
