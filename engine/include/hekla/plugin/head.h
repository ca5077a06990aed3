// A head: from ports of the body to outputs, and from outputs to what a user reads.
#ifndef HEKLA_PLUGIN_HEAD_H
#define HEKLA_PLUGIN_HEAD_H

#include "config.h"
#include "entry.h"
#include "graph.h"
#include "tokenizer.h"

#define HK_HEAD_INTERFACE "hekla.head/1"

// One output of a head on the host, row-major.
typedef struct hk_output {
    uint32_t struct_size;
    uint32_t rank;
    hk_string port; // eg: "logits"
    const float* values;
    int64_t dims[HK_MAX_RANK];
} hk_output;

typedef struct hk_head {
    // [any-thread]
    int32_t(HK_ABI* create)(const hk_config* config, void** self, hk_error* error);

    // [any-thread]
    void(HK_ABI* destroy)(void* self);

    // Asks for ports of the body and offers its own, eg: "logits".
    // [describe]
    int32_t(HK_ABI* build)(void* self, hk_builder* builder, hk_error* error);

    // Turns the outputs of a batch into one JSON text a row, by calling `push` once for each row in order.
    // eg: {"label": 2, "probability": 0.93}. The texts are copied by push. Null if the head has nothing to say.
    // [worker]
    int32_t(HK_ABI* decode)(void* self, const hk_output* outputs, uint32_t output_count, const hk_tokenizer* tokenizer,
                            void(HK_ABI* push)(void* context, hk_string json), void* context, hk_error* error);
} hk_head;

#endif
