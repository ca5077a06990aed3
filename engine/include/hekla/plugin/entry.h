// The one exported function of a plugin, and what it returns. The layout of hk_plugin_entry and of hk_host up to
// get_interface never changes in any version; members may be added after it.
//
// The manifest LIBRARY.json is next to the library and contains everything that a scan needs; the library is loaded
// only when one of its plugins is used.
//
// - A library exports hekla_plugin_entry and nothing else. [entry.1]
// - hekla_plugin_entry() may be called more than once and gives the same entry, with every member set. [entry.2]
// - abi_major equals the host's, and abi_minor_needed is at most the host's minor. [entry.3]
// - abi_major and abi_minor_needed equal those of the manifest. [entry.4]
// - Everything that the manifest promises exists, with every function that must not be null; otherwise nothing of the
//   library is registered. [entry.5]
// - An unknown interface or id gives null, also one that only begins like a known one. [entry.6]
// - When deinit() returns, every thread of the plugin has ended. No table of the host is used after it. [entry.7]
// - init() is called once, and again only after deinit(); a host that loads a library twice shares it. If a second
//   host in the same process calls it, it fails with HK_FAILED_PRECONDITION, as the layers of the SDK do. [entry.8]
//
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.
// clang-format off
#ifndef HEKLA_PLUGIN_ENTRY_H
#define HEKLA_PLUGIN_ENTRY_H

#include "error.h"

#define HK_ENTRY_MAGIC ((uint32_t)0x4C504B48u) // 'HKPL'

// Identity and interfaces of the host. Owned by the host, valid from init() until deinit() returns.
typedef struct hk_host {
    uint32_t struct_size;
    uint32_t abi_major;
    uint32_t abi_minor;
    uint32_t reserved; // zero
    hk_string name;    // eg: "hekla"
    hk_string version; // eg: "0.1.0"

    // The host's interface of that id, eg: HK_GRAPH_INTERFACE, or null if it has none. Owned by the host, valid until
    // deinit() returns.
    // [any-thread]
    const void*(HK_ABI* get_interface)(const struct hk_host* host, hk_string id);
} hk_host;

// Identity and functions of the plugin. Owned by the plugin, constant, valid as long as its code is mapped.
typedef struct hk_plugin_entry {
    uint32_t magic;            // HK_ENTRY_MAGIC
    uint32_t struct_size;      // sizeof(hk_plugin_entry)
    uint32_t abi_major;        // HK_ABI_MAJOR
    uint32_t abi_minor_needed; // HK_TARGET_ABI_MINOR: the oldest host that can run this plugin
    uint32_t abi_minor_built;  // HK_ABI_MINOR; used in messages only
    uint32_t reserved;         // zero
    hk_string build_tag;       // empty; a fork whose ABI differs must set its own, and is refused elsewhere

    // Called before anything else. An error refuses the plugin, and deinit() is not called. [entry.8]
    // [any-thread]
    int32_t(HK_ABI* init)(const hk_host* host, hk_error* error);

    // Called last. The code stays mapped. [entry.7]
    // [any-thread]
    void(HK_ABI* deinit)(void);

    // The plugin's implementation of (interface, id), eg: ("hekla.architecture/1", "gpt2"), or null if it has none.
    // Owned by the plugin, valid until deinit() returns. [entry.6]
    // [any-thread]
    const void*(HK_ABI* get_interface)(hk_string interface_id, hk_string id);
} hk_plugin_entry;

#define HK_ENTRY_SYMBOL "hekla_plugin_entry" // the only export: const hk_plugin_entry* hekla_plugin_entry(void);

#endif
