// Errors: a code, and a message that the host owns.
//
// - A message contains what was given, what was expected and what to do. [error.1]
//
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.
// clang-format off
#ifndef HEKLA_PLUGIN_ERROR_H
#define HEKLA_PLUGIN_ERROR_H

#include "abi.h"

#define HK_OK ((int32_t)0)
#define HK_INVALID_ARGUMENT ((int32_t)1) // the value is not allowed
#define HK_NOT_FOUND ((int32_t)2)
#define HK_UNSUPPORTED ((int32_t)3) // allowed, but not with this version, device or build
#define HK_FAILED_PRECONDITION ((int32_t)4) // a required earlier call or state is missing
#define HK_OUT_OF_MEMORY ((int32_t)5)
#define HK_IO ((int32_t)6)
#define HK_CORRUPT ((int32_t)7) // damaged data
#define HK_DEVICE_LOST ((int32_t)8)
#define HK_CANCELLED ((int32_t)9)
#define HK_INTERNAL ((int32_t)10) // an error in the code that reports it

// Created by the caller, filled by the function that fails.
typedef struct hk_error hk_error;

#define HK_ERROR_INTERFACE "hekla.error/1"

typedef struct hk_error_interface {
    // Keeps a code and a copy of the message. The last call wins. A null error is allowed and ignored.
    // [any-thread]
    void(HK_ABI* set)(hk_error* error, int32_t code, hk_string message);
} hk_error_interface;

#endif
