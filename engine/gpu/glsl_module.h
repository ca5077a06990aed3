/* What libhekla_glsl exports: one function, hekla_glsl_interface. Nothing allocated on one side is freed on the other:
   results are handed over through calls that borrow. Thread: any; calls share nothing. */
#ifndef HEKLA_GLSL_MODULE_H
#define HEKLA_GLSL_MODULE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEKLA_GLSL_VERSION 1u

typedef struct HeklaGlslResult {
    void* user;
    void (*words)(void* user, const uint32_t* words, size_t count); /* at most once, on success */
    void (*message)(void* user, const char* text, size_t size);     /* at most once, errors or warnings */
} HeklaGlslResult;

typedef struct HeklaGlslInterface {
    uint32_t struct_size;
    uint32_t version;
    /* A compute shader's text to SPIR-V 1.5 for Vulkan 1.2. `optimize`: 0 or 1. Returns 1 when words() was called. */
    int32_t (*compile)(const char* source, size_t size, const char* name, int32_t optimize,
                       const HeklaGlslResult* result);
} HeklaGlslInterface;

/* Null where this version is not offered. Static; never freed. */
typedef const HeklaGlslInterface* (*HeklaGlslEntry)(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
