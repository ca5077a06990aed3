// Messages to the user of the host.
//
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.
// clang-format off
#ifndef HEKLA_PLUGIN_LOG_H
#define HEKLA_PLUGIN_LOG_H

#include "abi.h"

#define HK_LOG_DEBUG ((int32_t)0)
#define HK_LOG_INFO ((int32_t)1)
#define HK_LOG_WARNING ((int32_t)2)
#define HK_LOG_ERROR ((int32_t)3)

#define HK_LOG_INTERFACE "hekla.log/1"

struct hk_host;

typedef struct hk_log_interface {
    // Passes a message to the host, which adds the plugin's id and writes it to its log. host: the argument of
    // init(). severity: HK_LOG_*; messages with another value are dropped. The message is copied.
    // [any-thread]
    void(HK_ABI* write)(const struct hk_host* host, int32_t severity, hk_string message);
} hk_log_interface;

#endif
