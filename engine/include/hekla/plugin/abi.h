// The ground of Hekla's plugin ABI: types, calling convention and versions that every other header uses.
//
// Rules of all headers in this folder:
// - Plain C: fixed-width integers, no enum, bool, bitfield or long in a struct or signature.
// - A string is a pointer and a size in UTF-8; it need not end in 0. It is borrowed until the call returns.
// - A function that can fail returns int32_t: HK_OK, or a code of error.h after filling the caller's hk_error.
//   Outputs are untouched on error.
// - Nothing is allocated on one side and freed on the other, and no exception, panic or abort crosses.
// - Interfaces (structs of functions) are frozen under their id; a new ability is a new id, as in "hekla.graph/2", or a
//   function at the end of one that the host gives, from a minor version on that its comment names.
//   Data structs begin with struct_size and only grow at the end.
// - Every function ends its comment with a thread tag: [any-thread], [describe] (one thread at a time an instance),
//   [worker] (many threads at once, also on one instance).
#ifndef HEKLA_PLUGIN_ABI_H
#define HEKLA_PLUGIN_ABI_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define HK_ABI __cdecl
#define HK_EXPORT __declspec(dllexport)
#else
#define HK_ABI
#define HK_EXPORT __attribute__((visibility("default")))
#endif

// Before 1.0 a minor version may break; from 1.0 on only a major one may, and there is no plan for one.
#define HK_ABI_MAJOR 0
#define HK_ABI_MINOR 5

// The oldest host minor that can run the plugin. Define it before including any header to ask for a newer one.
#ifndef HK_TARGET_ABI_MINOR
#define HK_TARGET_ABI_MINOR 1
#endif

typedef struct hk_string {
    const char* data;
    uint64_t size;
} hk_string;

// A tensor of one graph; 0 is none. It dies with its builder, and another builder refuses it.
typedef uint32_t hk_value;

// Kinds of tensors. float: the engine chooses its storage (32 or 16 bits). float32: kept as it is.
#define HK_KIND_FLOAT ((int32_t)0)
#define HK_KIND_FLOAT32 ((int32_t)1)
#define HK_KIND_INT32 ((int32_t)2)

#define HK_MAX_RANK 6

#endif
