// The Vulkan Memory Allocator configured for this engine: our function pointers, nothing exported, and no abort.
// Included only by memory.cpp, once with VMA_IMPLEMENTATION.
#pragma once

#include "gpu/newer_vulkan.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#define VMA_STATIC_VULKAN_FUNCTIONS 0
#define VMA_DYNAMIC_VULKAN_FUNCTIONS 0
#define VMA_VULKAN_VERSION 1002000
#define VMA_EXTERNAL_MEMORY 0
#define VMA_STATS_STRING_ENABLED 0
// Another copy of VMA may exist in the same process.
#define VMA_CALL_PRE static
// VMA's assertions check its use by the engine, which checks sizes and lifetimes itself and never aborts a host.
#define VMA_ASSERT(expression) static_cast<void>(0)
#define VMA_ASSERT_LEAK(expression) static_cast<void>(0)
#define VMA_IMPLEMENTATION
#include <vk_mem_alloc.h>
#pragma GCC diagnostic pop
