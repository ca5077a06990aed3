// Configuration of an instance: a table of a recipe or a model's config.json, completed by the defaults of the
// plugin's manifest. Keys are paths: "rope_parameters.rope_theta", "layers.0.width".
//
// - Every read marks its key. A key of a recipe that was never read is an error of the user, which the host reports.
//   [config.1]
// - Defaults are in the manifest and nowhere else: a parameter that has one is always set. [config.2]
// - Every element of an array that set_array() made is written before write_config() returns. [config.3]
//
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.
// clang-format off
#ifndef HEKLA_PLUGIN_CONFIG_H
#define HEKLA_PLUGIN_CONFIG_H

#include "error.h"

// Owned by the host; valid until the call that it was given to returns.
typedef struct hk_config hk_config;

// Owned by the host; valid until the call that it was given to returns.
typedef struct hk_config_writer hk_config_writer;

#define HK_CONFIG_INTERFACE "hekla.config/1"

typedef struct hk_config_interface {
    // Returns 1 if the key exists and is not null, else 0. Marks the key as read.
    // [describe]
    int32_t(HK_ABI* has)(const hk_config* config, hk_string key);

    // Returns the value of a required key of this type: HK_NOT_FOUND if the key is missing or null,
    // HK_INVALID_ARGUMENT if the value has another type, with the message in error (may be null).
    // [describe]
    int32_t(HK_ABI* get_integer)(const hk_config* config, hk_string key, int64_t* out, hk_error* error);

    // As get_integer(). Integers are accepted as reals, not the other way.
    // [describe]
    int32_t(HK_ABI* get_real)(const hk_config* config, hk_string key, double* out, hk_error* error);

    // As get_integer(); writes 1 or 0.
    // [describe]
    int32_t(HK_ABI* get_boolean)(const hk_config* config, hk_string key, int32_t* out, hk_error* error);

    // As get_integer(). The text is owned by the host and valid as long as the config; copy it to keep it.
    // [describe]
    int32_t(HK_ABI* get_text)(const hk_config* config, hk_string key, hk_string* out, hk_error* error);

    // The number of members of an object or elements of an array; errors as of get_integer().
    // [describe]
    int32_t(HK_ABI* get_count)(const hk_config* config, hk_string key, uint64_t* out, hk_error* error);

    // Writes one key of a configuration. Objects on its path are created; arrays must be created before (set_array).
    // HK_INVALID_ARGUMENT where the path leads through a number or a text, or beyond the end of an array.
    // [describe]
    int32_t(HK_ABI* set_integer)(hk_config_writer* writer, hk_string key, int64_t value, hk_error* error);

    // As set_integer().
    // [describe]
    int32_t(HK_ABI* set_real)(hk_config_writer* writer, hk_string key, double value, hk_error* error);

    // As set_integer(); 0 is false, everything else true.
    // [describe]
    int32_t(HK_ABI* set_boolean)(hk_config_writer* writer, hk_string key, int32_t value, hk_error* error);

    // As set_integer(). The text is copied.
    // [describe]
    int32_t(HK_ABI* set_text)(hk_config_writer* writer, hk_string key, hk_string value, hk_error* error);

    // As set_integer().
    // [describe]
    int32_t(HK_ABI* set_null)(hk_config_writer* writer, hk_string key, hk_error* error);

    // Creates an array of `count` elements, at most 2^20, which are then written as "KEY.0", "KEY.1", ...: each must
    // be, as a value, an object or an array of its own. [config.3]
    // [describe]
    int32_t(HK_ABI* set_array)(hk_config_writer* writer, hk_string key, uint64_t count, hk_error* error);

#if HK_TARGET_ABI_MINOR >= 2
    // Returns 1 if the key exists and is null, else 0: also if it is missing. Marks the key as read. A parameter of
    // the manifest with a default is null only if its entry has "null": true; otherwise null is replaced by the
    // default.
    // Since minor 2.
    // [describe]
    int32_t(HK_ABI* is_null)(const hk_config* config, hk_string key);
#endif
} hk_config_interface;

#endif
