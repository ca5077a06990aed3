// Errors: a code, and a message that the host owns.
#ifndef HEKLA_PLUGIN_ERROR_H
#define HEKLA_PLUGIN_ERROR_H

#include "abi.h"

#define HK_OK ((int32_t)0)
#define HK_INVALID_ARGUMENT ((int32_t)1)
#define HK_NOT_FOUND ((int32_t)2)
#define HK_UNSUPPORTED ((int32_t)3)
#define HK_FAILED_PRECONDITION ((int32_t)4)
#define HK_OUT_OF_MEMORY ((int32_t)5)
#define HK_IO ((int32_t)6)
#define HK_CORRUPT ((int32_t)7)
#define HK_DEVICE_LOST ((int32_t)8)
#define HK_CANCELLED ((int32_t)9)
#define HK_INTERNAL ((int32_t)10)

// Made by whoever calls, filled by whoever fails.
typedef struct hk_error hk_error;

#define HK_ERROR_INTERFACE "hekla.error/1"

typedef struct hk_error_interface {
    // Keeps a code and a copy of the message: what was given, what was expected, what to do. The last call wins.
    // A null error is allowed and ignored.
    // [any-thread]
    void(HK_ABI* set)(hk_error* error, int32_t code, hk_string message);
} hk_error_interface;

#endif
