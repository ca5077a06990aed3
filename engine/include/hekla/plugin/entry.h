// The one exported function of a plugin, and what it returns. The layout of hk_plugin_entry and of the first four
// members of hk_host never changes.
//
// Beside the library lies its manifest, LIBRARY.json, which answers every question of a scan; the library is loaded
// only when something of it is used.
#ifndef HEKLA_PLUGIN_ENTRY_H
#define HEKLA_PLUGIN_ENTRY_H

#include "error.h"

// 'HKPL'
#define HK_ENTRY_MAGIC ((uint32_t)0x4C504B48u)

// What the host is and offers. Owned by the host, valid from init() until deinit() returns.
typedef struct hk_host {
    uint32_t struct_size;
    uint32_t abi_major;
    uint32_t abi_minor;
    uint32_t reserved; // zero
    hk_string name;    // eg: "hekla"
    hk_string version; // eg: "0.1.0"

    // The host's interface of that id, or null if it has none.
    // Valid until deinit() returns.
    // [any-thread]
    const void*(HK_ABI* get_interface)(const struct hk_host* host, hk_string id);
} hk_host;

typedef struct hk_plugin_entry {
    uint32_t magic;            // HK_ENTRY_MAGIC
    uint32_t struct_size;      // sizeof(hk_plugin_entry)
    uint32_t abi_major;        // HK_ABI_MAJOR
    uint32_t abi_minor_needed; // HK_TARGET_ABI_MINOR: the oldest host that can run this plugin
    uint32_t abi_minor_built;  // HK_ABI_MINOR: for messages only
    uint32_t reserved;         // zero
    const char* build_tag;     // "" ; a fork whose ABI differs must set its own, and is refused elsewhere

    // Called once, before anything else.
    // [any-thread]
    int32_t(HK_ABI* init)(const hk_host* host, hk_error* error);

    // The last call. All threads of the plugin are joined when it returns. The code stays mapped.
    // [any-thread]
    void(HK_ABI* deinit)(void);

    // The plugin's implementation of (interface, id), eg: ("hekla.architecture/1", "gpt2"), or null if it has none.
    // Valid until deinit() returns.
    // [any-thread]
    const void*(HK_ABI* get_interface)(hk_string interface_id, hk_string id);
} hk_plugin_entry;

// The one export: const hk_plugin_entry* hekla_plugin_entry(void);
#define HK_ENTRY_SYMBOL "hekla_plugin_entry"

#endif
