// Draft: an adapter, a small addition that is trained while the body stays frozen.
//
// A trained body stays fixed, and a small addition is trained instead. While body and heads are described, the host
// calls the adapter at sites: places where a linear layer or an embedding uses a parameter. The adapter answers with
// a value that is added to the result of the site (a low-rank product, LoRA, Hu et al. 2021), or that replaces it
// (IA3, Liu et al. 2022). The engine differentiates, fuses, plans and computes it like every other graph, and since
// the body is frozen, no gradient of its weights is computed.
// The parameters of the body are frozen, and those of a head that the trained model has already; those of the adapter
// and of a new head are trained. A trained model's folder contains only these and names the folder of the body.
// Additions between layers (Houlsby et al. 2019) and to attention's keys and values (prefix tuning) are not covered
// by this draft.
//
// - create() may be called many times, in many processes; instances share no state. After HK_OK *self is not null;
//   destroy() is called with it once. [adapter.1]
// - The value of an answer is float and has the shape of the site's result y; a merged weight or bias has the shape
//   of the given one. [adapter.2]
// - adapt() and merge() offer no port, add no loss or metric, and leave no scope or region open. [adapter.3]
// - The same configuration and site give the same answer, whatever was described before. [adapter.4]
// - Before the first step, a body with its adapter gives the same results as without. [adapter.5]
// - In evaluation, adapt() computes what the layer computes with the weight and bias of merge(). [adapter.6]
//
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.
// clang-format off
#ifndef HEKLA_PLUGIN_DRAFT_ADAPTER_H
#define HEKLA_PLUGIN_DRAFT_ADAPTER_H

#include "../config.h"
#include "../entry.h"
#include "../graph.h"

// Kinds of sites.
#define HK_SITE_LINEAR ((int32_t)0) // a linear layer: y = x W^T + bias
#define HK_SITE_EMBEDDING ((int32_t)1) // an embedding: y = W[x]

// Flags of a site.
#define HK_SITE_OF_HEAD ((uint32_t)1u) // it belongs to a head, not to the body

// What an adapter answers at a site.
#define HK_ANSWER_NONE ((int32_t)0) // y is unchanged
#define HK_ANSWER_DELTA ((int32_t)1) // the value is added to y
#define HK_ANSWER_VALUE ((int32_t)2) // the value replaces y

// A place where body or head use a parameter W [out, in] (an embedding: [in, out], in is the number of rows).
typedef struct hk_site {
    uint32_t struct_size;
    int32_t kind;        // HK_SITE_*
    // the path of the module in the reference implementation, eg: "h.0.attn.c_attn"; a head that is tied to the
    // embedding has a name of its own, eg: "lm_head"
    hk_string name;
    hk_string parameter; // the parameter that it uses, eg: "h.0.attn.c_attn.weight"
    int64_t in;
    int64_t out;
    uint32_t flags;      // HK_SITE_OF_HEAD
    uint32_t reserved;   // zero
} hk_site;

// The values of a site.
typedef struct hk_site_values {
    uint32_t struct_size;
    hk_value x;        // [..., in] float; an embedding's ids [...] int32
    hk_value y;        // [..., out] float, bias included
    // W [out, in], transposed if the file has it otherwise (GPT-2); an embedding's table [in, out]
    hk_value weight;
    hk_value bias;     // [out], or 0
    uint32_t reserved; // zero
} hk_site_values;

// What an adapter answers at a site; zeros before.
typedef struct hk_site_answer {
    uint32_t struct_size; // set by the host
    int32_t kind;         // HK_ANSWER_*
    hk_value value;       // [..., out] float [adapter.2]
    uint32_t reserved;    // zero
} hk_site_answer;

#define HK_ADAPTER_DRAFT "hekla.adapter.draft/2"

typedef struct hk_adapter {
    // Reads the configuration (a recipe's [adapter], completed by the manifest's defaults). config is valid during
    // the call only. [adapter.1]
    // [any-thread]
    int32_t(HK_ABI* create)(const hk_config* config, void** self, hk_error* error);

    // Frees what create() made.
    // [any-thread]
    void(HK_ABI* destroy)(void* self);

    // Writes 1 if the adapter acts at this site. *wanted is 0 before. [adapter.4]
    // [any-thread]
    int32_t(HK_ABI* wants)(void* self, const hk_site* site, int32_t* wanted, hk_error* error);

    // Describes the answer at a site that it wants. The host puts "adapter.SITE." before the names of the adapter's
    // parameters: "lora_A.weight" becomes "adapter.h.0.attn.c_attn.lora_A.weight". A site that is described several
    // times (layers that share parameters) has the same parameters each time. [adapter.2] [adapter.3] [adapter.4]
    // [adapter.5]
    // [describe]
    int32_t(HK_ABI* adapt)(void* self, hk_builder* builder, const hk_site* site, const hk_site_values* values,
                           hk_site_answer* answer, hk_error* error);

    // Describes a weight and a bias with which the layer alone computes what it computes with the adapter, from the
    // weight and bias in `values`, whose x and y are 0. *weight and *bias are the given ones before. Null: the
    // adapter cannot be merged. [adapter.2] [adapter.3] [adapter.6]
    // [describe]
    int32_t(HK_ABI* merge)(void* self, hk_builder* builder, const hk_site* site, const hk_site_values* values,
                           hk_value* weight, hk_value* bias, hk_error* error);

    // Writes the adapter_config.json of PEFT. Null: PEFT has no such adapter.
    // [any-thread]
    int32_t(HK_ABI* write_config)(void* self, hk_config_writer* writer, hk_error* error);
} hk_adapter;

#endif
