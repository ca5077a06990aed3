// The basis of Hekla's plugin ABI: types, calling convention and versions that every other header uses.
//
// Plain C: fixed-width integers, no enum, bool, bitfield or long in a struct or signature.
// Every function ends its comment with a thread tag. [any-thread]: from any thread, and from several at once.
// [describe]: one thread at a time for each instance or builder. [worker]: several threads at once, also for one
// instance.
// A number in brackets, such as [abi.1], refers to a rule; the reference lists what enforces it.
//
// - A string is a pointer and a size in UTF-8. It need not end in 0, and is borrowed until the call returns; a null
//   pointer is the empty string. [abi.1]
// - A function that can fail returns int32_t: HK_OK, or a code of error.h after filling the caller's hk_error. Its
//   outputs are untouched on error. [abi.2]
// - Nothing is allocated on one side and freed on the other. [abi.3]
// - No exception, panic, abort or longjmp crosses, in either direction. A C++ exception that does is caught and
//   reported; the others end the program. [abi.4]
// - A data struct begins with struct_size, set by the side that makes it, and only grows at the end. A reader uses no
//   member beyond its struct_size, and steps through an array by the struct_size of the first element. Where the
//   other side fills a struct, the caller sets struct_size to the space available, and nothing is written after it.
//   [abi.5]
// - A struct of functions is frozen under its id. A new feature is a new id, such as "hekla.graph/2", or a function
//   at the end of a struct that the host gives; its comment names the minor version that added it. [abi.6]
// - What is newer than HK_TARGET_ABI_MINOR is not declared, so a plugin cannot use by mistake what its oldest host
//   lacks. [abi.7]
// - Members and parameters named reserved are zero, and so are bits of flags that have no name. Other values are
//   refused, so that they can get a meaning later. [abi.8]
// - A function is called from the threads that its tag allows. A function that several threads may call at once does
//   not change its instance. [abi.9]
// - A host gives a plugin no constant (a mode, a kind, a code) that is newer than the plugin's abi_minor_needed.
//   [abi.10]
//
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.
// clang-format off
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

// The version of these headers. A plugin that was built for one minor version loads in every later one of its major
// version; the reference lists what a minor version may add, and there is no plan for another major one.
// 1.2 is open: it is not released yet, and may still be added to.
#define HK_ABI_MAJOR 1
#define HK_ABI_MINOR 2
#define HK_ABI_OLDEST_MINOR 0 // that a plugin can still be built for

// The oldest host minor that can run the plugin; what is newer is not declared. Define it before including any header,
// or on the compiler's command line, to ask for a newer one; hekla_add_plugin takes it from the manifest. [abi.7]
#ifndef HK_TARGET_ABI_MINOR
#define HK_TARGET_ABI_MINOR HK_ABI_OLDEST_MINOR
#endif
#if HK_TARGET_ABI_MINOR < HK_ABI_OLDEST_MINOR || HK_TARGET_ABI_MINOR > HK_ABI_MINOR
#error "HK_TARGET_ABI_MINOR (abi_minor_needed in the manifest) asks for a plugin ABI that these headers do not have"
#endif

// UTF-8 text. [abi.1]
typedef struct hk_string {
    const char* data;
    uint64_t size; // in bytes
} hk_string;

// A tensor of one graph; 0 is none. It dies with its builder, and another builder refuses it. [graph.3]
typedef uint32_t hk_value;

// Kinds of tensors.
#define HK_KIND_FLOAT ((int32_t)0) // the engine chooses its storage (32 or 16 bits)
#define HK_KIND_FLOAT32 ((int32_t)1) // kept as it is
#define HK_KIND_INT32 ((int32_t)2)

#define HK_MAX_RANK 6 // dimensions of a tensor

#endif
