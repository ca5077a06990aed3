// The Vulkan Memory Allocator as this engine uses it: our function pointers, nothing exported, and no abort.
// Included by memory.cpp only, once with VMA_IMPLEMENTATION.
#pragma once

#include "gpu/newer_vulkan.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#define VMA_STATIC_VULKAN_FUNCTIONS 0
#define VMA_DYNAMIC_VULKAN_FUNCTIONS 0
#define VMA_VULKAN_VERSION 1002000
#define VMA_EXTERNAL_MEMORY 0
#define VMA_STATS_STRING_ENABLED 0
// Another copy of VMA may live in the same process.
#define VMA_CALL_PRE static
// An assertion of VMA's is about our use of it; the engine checks sizes and lifetimes itself and never aborts a host.
#define VMA_ASSERT(expression) static_cast<void>(0)
#define VMA_ASSERT_LEAK(expression) static_cast<void>(0)
#define VMA_IMPLEMENTATION
#include <vk_mem_alloc.h>
#pragma GCC diagnostic pop
