// Draft: an adapter, which changes the weights that a trained body computes with.
//
// A body that was trained stays as it is, and something small learns in its place: a pair of low rank beside a matrix
// (LoRA, Hu et al. 2021), a factor a row, a shift. While a body is described, its adapter is asked about each of its
// parameters and answers with what is computed with instead, a graph of the parameter and of parameters of the
// adapter's own. It is the engine that differentiates, fuses, plans and computes it like everything else.
// The body's parameters are frozen then; the adapter's and those of a head outside of the body learn. A trained
// model's folder holds these alone and names the folder of the body. What stands between two layers (a bottleneck of
// Houlsby et al. 2019) is no weight, and a draft with another number.
//
// - create() may be called many times, in many processes; instances share nothing. After HK_OK *self is not null, and
//   it is given back to destroy() once. [adapter.1]
// - What is computed with has the shape of the parameter, and is float. [adapter.2]
// - adapt() offers no port, adds no loss or metric, and leaves no scope or region open. [adapter.3]
// - The same configuration, name and shape give the same graph, whatever was described before. [adapter.4]
// - Before the first step a body with its adapter computes what it computes without. [adapter.5]
//
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.
// clang-format off
#ifndef HEKLA_PLUGIN_DRAFT_ADAPTER_H
#define HEKLA_PLUGIN_DRAFT_ADAPTER_H

#include "../config.h"
#include "../entry.h"
#include "../graph.h"

#define HK_ADAPTER_DRAFT "hekla.adapter.draft/1"

typedef struct hk_adapter {
    // Reads the configuration (a recipe's [adapter], completed by the manifest's defaults). config is valid during
    // the call only. [adapter.1]
    // [any-thread]
    int32_t(HK_ABI* create)(const hk_config* config, void** self, hk_error* error);

    // Frees what create() made.
    // [any-thread]
    void(HK_ABI* destroy)(void* self);

    // Describes what the body computes with in place of its parameter of that name, eg: "h.0.attn.c_attn.weight",
    // whose value is given: once for each that build() of the architecture asks for; a head of the architecture's own
    // gets the same. *adapted is 0 before: left so, the parameter is computed with. The host puts "adapter." before
    // the names of parameters that the adapter asks for; they begin with the name of the body's, so that each has its
    // own. [adapter.2] [adapter.3] [adapter.4] [adapter.5]
    // [describe]
    int32_t(HK_ABI* adapt)(void* self, hk_builder* builder, hk_string parameter, hk_value value, hk_value* adapted,
                           hk_error* error);
} hk_adapter;

#endif
