// An adapter: a small addition that is trained while the body stays frozen.
// Since minor 1.
//
// A trained body stays fixed, and a small addition is trained instead. While body and heads are described, the host
// calls the adapter at sites, which it finds itself: linear layers, embeddings and norms, and the places where a
// block's attention or feed-forward network is added to the residual stream. The adapter answers with a value that is
// added to the result of the site (a low-rank product, LoRA, Hu et al. 2021), or that replaces it (IA3, Liu et al.
// 2022; bottleneck layers, Houlsby et al. 2019). The engine differentiates, fuses, plans and computes it like every
// other graph, and since the body is frozen, no gradient of its weights is computed.
// The parameters of the body are frozen, and those of a head that the trained model has already; those of the adapter
// and of a new head are trained, and parameters of the body that trains() selects (biases, norms). A trained model's
// folder contains only these and names the folder of the body.
// An adapter may put virtual tokens before each row, whose embeddings (prompt tuning, Lester et al. 2021) or keys and
// values (prefix tuning, Li and Liang 2021) it trains. The host gives the plugins longer rows: fields of tokens begin
// with `count` placeholders, which are attended to and have no labels. Only attention has more keys and values where
// virtual tokens are hidden and take no positions, or begin the rows of an encoder-decoder's decoder.
//
// - create() may be called many times, in many processes; instances share no state. After HK_OK *self is not null;
//   destroy() is called with it once. [adapter.1]
// - The value of an answer is float and has the shape of the site's y, or that which HK_ANSWER_VIRTUAL states; a
//   merged weight or bias has the shape of the given one. [adapter.2]
// - adapt() and merge() offer no port, add no loss or metric, and leave no scope or region open. [adapter.3]
// - The same configuration and site give the same answer, whatever was described before. [adapter.4]
// - Before the first step, a body with its adapter gives the results that it gives without, or, if the published
//   method has random initial values (bottleneck layers), results near them. [adapter.5]
// - In evaluation, adapt() computes what the layer computes with the weight and bias of merge(). [adapter.6]
//
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.
// clang-format off
#ifndef HEKLA_PLUGIN_ADAPTER_H
#define HEKLA_PLUGIN_ADAPTER_H

#include "config.h"
#include "entry.h"
#include "graph.h"

#if HK_TARGET_ABI_MINOR >= 1

// Kinds of sites.
#define HK_SITE_LINEAR ((int32_t)0) // a linear layer: y = x W^T + bias
#define HK_SITE_EMBEDDING ((int32_t)1) // an embedding: y = W[x]
#define HK_SITE_NORM ((int32_t)2) // a layer norm or RMS norm with a gain: y = normalized(x) W + bias
// the end of a block's part: y, what the part computes, is added to the residual stream x
#define HK_SITE_RESIDUAL ((int32_t)3)
// keys x and values y of attention, [B, out, tokens, in]; of an encoder-decoder, the decoder's self-attention; asked
// for only if there are virtual tokens
#define HK_SITE_ATTENTION ((int32_t)4)

// Flags of a site.
#define HK_SITE_OF_HEAD ((uint32_t)1u) // it belongs to a head, not to the body
#define HK_SITE_OF_ATTENTION ((uint32_t)2u) // residual: the part is attention; without it, a feed-forward network
#define HK_SITE_OF_CROSS ((uint32_t)4u) // residual: the part is attention to an encoder's states
#define HK_SITE_OF_TOKENS ((uint32_t)8u) // embedding: its ids are the batch's input_ids
#define HK_SITE_OF_DECODER ((uint32_t)16u) // attention: of the decoder of an encoder-decoder

// What an adapter answers at a site.
#define HK_ANSWER_NONE ((int32_t)0) // y is unchanged
#define HK_ANSWER_DELTA ((int32_t)1) // the value is added to y
#define HK_ANSWER_VALUE ((int32_t)2) // the value replaces y
// residual: the value replaces the sum of x and y, and the norm that follows it in the block
#define HK_ANSWER_RESULT ((int32_t)3)
// what virtual tokens have in place of what the body computes: embedding of tokens, or a norm of values [B, T, out]:
// value [count, out]; attention: keys [out, count, in] as value, values as second
#define HK_ANSWER_VIRTUAL ((int32_t)4)

// Flags of virtual tokens.
// heads and objective do not see them: the host cuts them from the body's ports that have one element per token
#define HK_VIRTUAL_HIDDEN ((uint32_t)1u)
// they take no positions: the row's own tokens begin at position 0; without it, at position count
#define HK_VIRTUAL_WITHOUT_POSITIONS ((uint32_t)2u)

// Parameters of a site that are trained with the adapter.
#define HK_TRAINS_WEIGHT ((uint32_t)1u)
#define HK_TRAINS_BIAS ((uint32_t)2u)

// Flags of initial(), with those of parameters.
#define HK_INITIAL_FIXED ((uint32_t)2u) // it is saved and not trained

// A place where body or head use a parameter W [out, in] (an embedding: [in, out], in is the number of rows; a norm:
// [out]). The host finds residual sites in graphs where a linear layer (with dropout, scales or a norm after it, if
// there are any) is added to values [B, T, out] on which it depends.
typedef struct hk_adapter_site {
    uint32_t struct_size;
    int32_t kind;      // HK_SITE_*
    // the path of the module in the reference implementation, eg: "h.0.attn.c_attn"; a head that is tied to the
    // embedding has a name of its own, eg: "lm_head"; residual: that of the part's last linear layer, eg:
    // "h.0.attn.c_proj"; attention: "attention.0" and so on, in the order of description
    hk_string name;
    // the parameter that it uses, eg: "h.0.attn.c_attn.weight"; residual and attention: empty
    hk_string parameter;
    hk_string bias;    // the parameter of its bias, or empty
    int64_t in;        // norm and residual: as out; attention: width of a head
    int64_t out;       // attention: number of heads of keys and values
    int64_t index;     // attention: its number, from 0; otherwise 0
    uint32_t flags;    // HK_SITE_OF_*
    uint32_t reserved; // zero
} hk_adapter_site;

// The values of a site.
typedef struct hk_site_values {
    uint32_t struct_size;
    hk_value x;        // [..., in] float; an embedding's ids [...] int32; residual: the stream before the part
    hk_value y;        // [..., out] float, bias included
    // W [out, in], transposed if the file has it otherwise (GPT-2); an embedding's table [in, out]; a norm's gain
    // [out]; residual: 0
    hk_value weight;
    hk_value bias;     // [out], or 0
    // residual: x + y after the norm that follows in the block (BERT), or x + y if none does (GPT-2); otherwise 0
    hk_value normed;
    uint32_t reserved; // zero
} hk_site_values;

// What an adapter answers at a site; zeros before.
typedef struct hk_site_answer {
    uint32_t struct_size; // set by the host
    int32_t kind;         // HK_ANSWER_*
    hk_value value;       // [..., out] float [adapter.2]
    hk_value second;      // HK_ANSWER_VIRTUAL at attention only
    hk_value input;       // what the answer is computed from, for combiners that compare adapters by it; 0: y
    uint32_t reserved;    // zero
    // A [r, in] if value is a number times (x A^T) B^T at a linear layer, for combiners that compare adapters by
    // their matrices; otherwise 0
    hk_value a;
    hk_value b;           // B [out, r], or 0
} hk_site_answer;

#define HK_ADAPTER_HOST_INTERFACE "hekla.adapter-host/1"

// What an adapter needs of the host besides hekla.config/1 and hekla.graph/1.
typedef struct hk_adapter_host {
    // The name of a member of an object, in the order of names; index is less than get_count(). The text is valid as
    // long as the config. HK_NOT_FOUND: the key is not an object, or has fewer members.
    // [describe]
    int32_t(HK_ABI* member)(const hk_config* config, hk_string key, uint64_t index, hk_string* out, hk_error* error);

    // Writes 1 if the regular expression (PCRE2's syntax) matches the whole text, else 0. HK_INVALID_ARGUMENT: it is
    // not an expression, or takes too many steps.
    // [any-thread]
    int32_t(HK_ABI* matches)(hk_string expression, hk_string text, int32_t* matched, hk_error* error);

    // A parameter of the adapter, as parameter() of hekla.graph/1, whose initial values are those of `value`,
    // computed in float64 from parameters of the body, for a combiner also from those of adapters that folders have.
    // `value` is float and depends on no field of the batch. flags: HK_PARAMETER_*, HK_INITIAL_*. Returns 0 after an
    // error.
    // [describe]
    hk_value(HK_ABI* initial)(hk_builder* builder, hk_string name, hk_value value, uint32_t flags);
} hk_adapter_host;

#define HK_ADAPTER_INTERFACE "hekla.adapter/1"

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
    int32_t(HK_ABI* wants)(void* self, const hk_adapter_site* site, int32_t* wanted, hk_error* error);

    // Writes which of the site's own parameters are trained and saved with the adapter: HK_TRAINS_WEIGHT,
    // HK_TRAINS_BIAS. *trained is 0 before. Null: none. [adapter.4]
    // [any-thread]
    int32_t(HK_ABI* trains)(void* self, const hk_adapter_site* site, uint32_t* trained, hk_error* error);

    // Writes how many virtual tokens begin each row, and HK_VIRTUAL_* flags. In an encoder-decoder, hidden ones begin
    // the decoder's rows, others the encoder's. Null: none. With virtual tokens, the names of the adapter's
    // parameters begin with "adapter." alone, without the site's name. [adapter.4]
    // [any-thread]
    int32_t(HK_ABI* virtual_tokens)(void* self, int64_t* count, uint32_t* flags, hk_error* error);

    // Describes the answer at a site that it wants. The host puts "adapter.SITE." before the names of the adapter's
    // parameters: "lora_A.weight" becomes "adapter.h.0.attn.c_attn.lora_A.weight". A site that is described several
    // times (layers that share parameters) has the same parameters each time. [adapter.2] [adapter.3] [adapter.4]
    // [adapter.5]
    // [describe]
    int32_t(HK_ABI* adapt)(void* self, hk_builder* builder, const hk_adapter_site* site, const hk_site_values* values,
                           hk_site_answer* answer, hk_error* error);

    // Describes a weight and a bias with which the layer alone computes what it computes with the adapter, from the
    // weight and bias in `values`, whose x, y and normed are 0. *weight and *bias are the given ones before. Null:
    // the adapter cannot be merged. [adapter.2] [adapter.3] [adapter.6]
    // [describe]
    int32_t(HK_ABI* merge)(void* self, hk_builder* builder, const hk_adapter_site* site, const hk_site_values* values,
                           hk_value* weight, hk_value* bias, hk_error* error);

    // Writes the adapter_config.json of PEFT. Null: PEFT has no such adapter.
    // [any-thread]
    int32_t(HK_ABI* write_config)(void* self, hk_config_writer* writer, hk_error* error);
} hk_adapter;

#endif

#endif
