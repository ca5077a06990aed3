// Draft: an adapter, which changes the weights of a trained body.
//
// A trained body stays fixed, and a small addition is trained instead: a low-rank pair of matrices (LoRA, Hu et al.
// 2021), a factor per row, a shift. While a body is described, its adapter is called for each of its parameters and
// gives the value to compute with instead: a graph of the parameter and of the adapter's own parameters. The engine
// differentiates, fuses, plans and computes it like every other graph.
// The body's parameters are frozen; those of the adapter and of a head outside of the body are trained. A trained
// model's folder contains only these and names the folder of the body. Adapters between layers (Houlsby et al. 2019)
// do not replace weights and are not covered by this draft.
//
// - create() may be called many times, in many processes; instances share no state. After HK_OK *self is not null;
//   destroy() is called with it once. [adapter.1]
// - The adapted value is float and has the shape of the parameter. [adapter.2]
// - adapt() offers no port, adds no loss or metric, and leaves no scope or region open. [adapter.3]
// - The same configuration, name and shape give the same graph, whatever was described before. [adapter.4]
// - Before the first step, a body with its adapter gives the same results as without. [adapter.5]
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

    // Describes the value that the body uses instead of its parameter of that name, eg: "h.0.attn.c_attn.weight".
    // Called once for each parameter that build() of the architecture asks for; the architecture's own heads get the
    // same value. *adapted is 0 before; if it stays 0, the parameter itself is used. The host puts "adapter." before
    // the names of the adapter's parameters, which begin with the name of the body's parameter, so that they are
    // unique. [adapter.2] [adapter.3] [adapter.4] [adapter.5]
    // [describe]
    int32_t(HK_ABI* adapt)(void* self, hk_builder* builder, hk_string parameter, hk_value value, hk_value* adapted,
                           hk_error* error);
} hk_adapter;

#endif
