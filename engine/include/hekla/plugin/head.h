// A head: from ports of the body to outputs, and from outputs to what a user reads.
//
// - create() may be called many times, in many processes; instances share no state. After HK_OK *self is not null;
//   destroy() is called with it once. [head.1]
// - decode() gives one result for each of row_count rows, in order. [head.2]
// - The result of decode() for a row depends on that row alone. [head.3]
//
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.
// clang-format off
#ifndef HEKLA_PLUGIN_HEAD_H
#define HEKLA_PLUGIN_HEAD_H

#include "config.h"
#include "entry.h"
#include "field.h"
#include "graph.h"
#include "tokenizer.h"

// One output of the network on the host, row-major.
typedef struct hk_output {
    uint32_t struct_size;
    uint32_t rank;
    hk_string port; // eg: "logits"
    const float* values;
    int64_t dims[HK_MAX_RANK];
} hk_output;

// Input of decode(). Owned by the host, valid until decode() returns.
typedef struct hk_decode_input {
    uint32_t struct_size;
    uint32_t output_count;
    const hk_output* outputs;
    const hk_field* fields;        // of the batch
    uint32_t field_count;
    uint32_t row_count;            // the number of rows with an example; these are the first rows of the fields
    const hk_tokenizer* tokenizer; // may be null
} hk_decode_input;

#define HK_HEAD_INTERFACE "hekla.head/1"

typedef struct hk_head {
    // config is valid during the call only. [head.1]
    // [any-thread]
    int32_t(HK_ABI* create)(const hk_config* config, void** self, hk_error* error);

    // Frees what create() made.
    // [any-thread]
    void(HK_ABI* destroy)(void* self);

    // Asks for ports of the body and offers its own, eg: "logits". Not called if the architecture has its own head of
    // this id; decode then reads the ports of that head.
    // [describe]
    int32_t(HK_ABI* build)(void* self, hk_builder* builder, hk_error* error);

    // Lists the ports that decode() reads, by calling `push` once for each. Null if decode is null.
    // [any-thread]
    int32_t(HK_ABI* decode_ports)(void* self, void(HK_ABI* push)(void* context, hk_string port), void* context,
                                  hk_error* error);

    // Turns the outputs of a batch into one JSON object per row, by calling `push` once for each of row_count rows in
    // order. push copies the texts. Null if the head's outputs are not decoded. Members that hosts know, and score
    // against the columns of the example:
    //   "label": a class, "probabilities": of all; "labels": several classes, or one per word
    //   "value": a number; "choice": which of several; "next": a text
    //   "embedding": numbers; "masks": the prediction for each mask
    // [worker]
    int32_t(HK_ABI* decode)(void* self, const hk_decode_input* input, void(HK_ABI* push)(void* context, hk_string json),
                            void* context, hk_error* error);
} hk_head;

#endif
