// A combiner, which makes one answer of what several adapters answer at a site.
// Since minor 1.
//
// Several adapters may act on one body. A recipe's [combine] specifies it with the names of adapters and combiners:
// "stack(language, fusion(a, b))". At every site where one of its branches acts, the host asks the branches first,
// each with the same values of the site, and then the combiner, which may have parameters of its own: a router, or
// the attention of AdapterFusion (Pfeiffer et al. 2021). A stack is the host's own: each adapter sees what the one
// before it has made of y.
// Adapters whose answer replaces y are combined by their difference to y; an answer that replaces the residual sum
// too cannot be combined. Adapters that are read from folders stay as they are, unless the recipe trains them.
//
// - create() may be called many times, in many processes; instances share no state. After HK_OK *self is not null;
//   destroy() is called with it once. [combiner.1]
// - delta is float and has the shape of y; weights, if there are any, are float [..., count] with the leading
//   dimensions of y, or with 1 in place of some; loss is a float scalar. [combiner.2]
// - combine() offers no port, adds no loss or metric, and leaves no scope or region open. [combiner.3]
// - The same configuration, site and branches give the same result, whatever was described before. [combiner.4]
//
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.
// clang-format off
#ifndef HEKLA_PLUGIN_COMBINER_H
#define HEKLA_PLUGIN_COMBINER_H

#include "adapter.h"

#if HK_TARGET_ABI_MINOR >= 1

// An adapter, or a combination, at a site.
typedef struct hk_branch {
    uint32_t struct_size;
    uint32_t reserved; // zero
    hk_string name;    // of the adapter, eg: "sst2", or the text of the combination
    // [..., out] float, which the branch alone would add to y; 0: it does not act at this site
    hk_value delta;
    hk_value input;    // [..., width] float, from which the branch computed delta; 0 if delta is 0
    hk_value a;        // A [r, in] if delta is a number times (input A^T) B^T, otherwise 0
    hk_value b;        // B [out, r], or 0
} hk_branch;

// What a combiner gives; zeros before.
typedef struct hk_combined {
    uint32_t struct_size; // set by the host
    uint32_t reserved;    // zero
    hk_value delta;       // [..., out] float, which is added to y [combiner.2]
    // [..., count] float: the share of each branch, which the host offers as the port "routing.SITE"
    // ("routing.SITE.residual"); 0: none
    hk_value weights;
    hk_value loss;        // float scalar, which is added to the loss in training; 0: none
} hk_combined;

#define HK_COMBINER_INTERFACE "hekla.combiner/1"

typedef struct hk_combiner {
    // Reads the configuration (a recipe's [combine], completed by the manifest's defaults). config is valid during
    // the call only. [combiner.1]
    // [any-thread]
    int32_t(HK_ABI* create)(const hk_config* config, void** self, hk_error* error);

    // Frees what create() made.
    // [any-thread]
    void(HK_ABI* destroy)(void* self);

    // Describes the combination of `count` branches, in the order of the recipe, at least one of which acts at this
    // site. values.weight and values.bias are 0. The host puts "adapter.combine.SITE." before the names of the
    // combiner's parameters, and "adapter.combine.SITE.residual." at residual sites, which have the name of a linear
    // layer. [combiner.2] [combiner.3] [combiner.4]
    // [describe]
    int32_t(HK_ABI* combine)(void* self, hk_builder* builder, const hk_adapter_site* site, const hk_site_values* values,
                             const hk_branch* branches, uint32_t count, hk_combined* combined, hk_error* error);
} hk_combiner;

#endif

#endif
