// The host's functions that a context calls, except those of single calls and sessions.
#pragma once

#include "api/replaceable.hpp"
#include "hekla/device.h"
#include "hekla/hekla.h"

namespace hekla::api {

// Functions are null if the host set none.
struct HostFunctions {
    struct Messages {
        void* user = nullptr;
        void(HK_ABI* log)(void* user, int32_t severity, hk_string message) = nullptr;
        void(HK_ABI* job)(void* user, void(HK_ABI* run)(void* data), void* data) = nullptr;
    };
    struct QueueLock {
        void* user = nullptr;
        void(HK_ABI* lock)(void* user) = nullptr;
        void(HK_ABI* unlock)(void* user) = nullptr;
    };
    Replaceable<Messages> messages;
    Replaceable<QueueLock> queue;
    Replaceable<hk_cache> cache;
    Replaceable<hk_allocator> allocator;
};

} // namespace hekla::api
