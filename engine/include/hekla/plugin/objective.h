// An objective: which fields a batch has, how examples become fields, and what is to be minimized.
#ifndef HEKLA_PLUGIN_OBJECTIVE_H
#define HEKLA_PLUGIN_OBJECTIVE_H

#include "config.h"
#include "entry.h"
#include "graph.h"
#include "tokenizer.h"

#define HK_OBJECTIVE_INTERFACE "hekla.objective/1"

// What one example is.
#define HK_EXAMPLE_WINDOW ((int32_t)0)   // consecutive tokens of the corpus, tokens_per_example() of them
#define HK_EXAMPLE_DOCUMENT ((int32_t)1) // the tokens of one document
#define HK_EXAMPLE_PAIR ((int32_t)2)     // two texts' tokens
#define HK_EXAMPLE_ROW ((int32_t)3)      // columns of a table

// One example: the tokens of each of its columns.
typedef struct hk_example {
    uint32_t struct_size;
    uint32_t column_count;
    const hk_string* column_names; // eg: "text", "label"
    const int32_t* const* columns;
    const uint64_t* column_sizes;
    uint64_t index; // in the corpus; with the seed it keys every random number of this example
} hk_example;

// One field of the batch: described by fields(), its storage filled by collate().
typedef struct hk_field {
    uint32_t struct_size;
    int32_t kind; // HK_KIND_INT32 or HK_KIND_FLOAT32
    hk_string name;
    uint32_t rank;
    uint32_t reserved; // zero
    int64_t dims[HK_MAX_RANK];
    void* data; // int32_t or float values, row-major, zeroed by the host; null in fields()
} hk_field;

typedef struct hk_objective {
    // tokenizer may be null where a graph is only described for fields that are given.
    // It stays valid until destroy().
    // [any-thread]
    int32_t(HK_ABI* create)(const hk_config* config, const hk_tokenizer* tokenizer, void** self, hk_error* error);

    // [any-thread]
    void(HK_ABI* destroy)(void* self);

    // HK_EXAMPLE_*.
    // [any-thread]
    int32_t(HK_ABI* example_kind)(void* self);

    // How many raw tokens fill one row of the given length, eg: length + 1 for next-token prediction.
    // [any-thread]
    int64_t(HK_ABI* tokens_per_example)(void* self, int64_t length);

    // Says the fields of a batch of that many rows and tokens a row, by calling `push` once for each.
    // [any-thread]
    int32_t(HK_ABI* fields)(void* self, int64_t batch, int64_t length,
                            void(HK_ABI* push)(void* context, const hk_field* field), void* context, hk_error* error);

    // A pass over the corpus before training, for objectives that count (GloVe, skip-gram). Null if none is needed.
    // next: writes the next example, returns 1, or 0 at the end; the example is valid until the next call.
    // [describe]
    int32_t(HK_ABI* prepare)(void* self, int32_t(HK_ABI* next)(void* context, hk_example* example), void* context,
                             hk_error* error);

    // Asks for fields and ports, adds losses and metrics.
    // [describe]
    int32_t(HK_ABI* build)(void* self, hk_builder* builder, hk_error* error);

    // Fills the fields of one batch from its examples (one a row). A pure function of its arguments: random numbers are
    // keyed by (seed, epoch, example index, a stream of the objective's own), never by row or thread.
    // Null where fields cannot be made from text: such an objective only measures given batches.
    // [worker]
    int32_t(HK_ABI* collate)(void* self, const hk_example* examples, uint32_t example_count, uint64_t seed,
                             uint64_t epoch, hk_field* fields, uint32_t field_count, hk_error* error);
} hk_objective;

#endif
