// An objective: which fields a batch has, how examples become fields, and what is to be minimized.
//
// - create() may be called many times, in many processes; instances share no state. After HK_OK *self is not null;
//   destroy() is called with it once. [objective.1]
// - collate() is a pure function of its arguments: random numbers depend on (seed, epoch, index of the example, a
//   stream of the objective's own), never on the row or thread. [objective.2]
// - A field is int32 or float32, has a name and at most HK_MAX_RANK dimensions. [objective.3]
// - build() adds at least one loss. [objective.4]
// - Rows of a batch without an example, and unknown targets, have no weight. [objective.5]
//
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.
// clang-format off
#ifndef HEKLA_PLUGIN_OBJECTIVE_H
#define HEKLA_PLUGIN_OBJECTIVE_H

#include "config.h"
#include "entry.h"
#include "example.h"
#include "field.h"
#include "graph.h"
#include "tokenizer.h"

// Kinds of examples.
#define HK_EXAMPLE_WINDOW ((int32_t)0) // consecutive tokens of the corpus, tokens_per_example() of them: column "text"
#define HK_EXAMPLE_DOCUMENT ((int32_t)1) // consecutive sentences of one text, about as many tokens: column "text"
#define HK_EXAMPLE_ROW ((int32_t)2) // a row of a table, with the columns that columns() names

// Flags of a column.
#define HK_COLUMN_OPTIONAL ((uint32_t)1u) // the data may lack the column
// the target of the prediction; absent where it is not known. The row then has no weight in the loss. [objective.5]
#define HK_COLUMN_TARGET ((uint32_t)2u)

// A column that an objective reads.
typedef struct hk_column_need {
    uint32_t struct_size;
    int32_t kind;      // HK_COLUMN_*
    hk_string name;
    uint32_t flags;    // HK_COLUMN_OPTIONAL, HK_COLUMN_TARGET
    uint32_t reserved; // zero
} hk_column_need;

#define HK_OBJECTIVE_INTERFACE "hekla.objective/1"

typedef struct hk_objective {
    // tokenizer may be null where a graph is only described for given fields, or only columns() is called. It is
    // valid until destroy(); config is valid during the call only. [objective.1]
    // [any-thread]
    int32_t(HK_ABI* create)(const hk_config* config, const hk_tokenizer* tokenizer, void** self, hk_error* error);

    // Frees what create() made.
    // [any-thread]
    void(HK_ABI* destroy)(void* self);

    // HK_EXAMPLE_*.
    // [any-thread]
    int32_t(HK_ABI* example_kind)(void* self);

    // Windows and documents: how many raw tokens fill one row of the given length, eg: length + 1 for next-token
    // prediction, length - 2 where two special tokens are added.
    // [any-thread]
    int64_t(HK_ABI* tokens_per_example)(void* self, int64_t length);

    // Rows: lists the columns by calling `push` once for each, which copies it. Null for windows and documents.
    // [any-thread]
    int32_t(HK_ABI* columns)(void* self, void(HK_ABI* push)(void* context, const hk_column_need* column), void* context,
                             hk_error* error);

    // The length of a row that holds the whole example, in tokens; longer rows waste time. Null: every example fills
    // a row.
    // [worker]
    int64_t(HK_ABI* example_length)(void* self, const hk_example* example);

    // Lists the fields of a batch with this number of rows and tokens per row, by calling `push` once for each, which
    // copies it. [objective.3]
    // [any-thread]
    int32_t(HK_ABI* fields)(void* self, int64_t batch, int64_t length,
                            void(HK_ABI* push)(void* context, const hk_field* field), void* context, hk_error* error);

    // Asks for fields and ports, adds losses and metrics. [objective.4]
    // [describe]
    int32_t(HK_ABI* build)(void* self, hk_builder* builder, hk_error* error);

    // Fills the fields of one batch, in the order of fields(). An example that is longer than a row is truncated in a
    // way that suits the objective. Null if fields cannot be made from examples: such an objective only evaluates
    // given batches. [objective.2] [objective.5]
    // [worker]
    int32_t(HK_ABI* collate)(void* self, const hk_batch* batch, hk_field* fields, uint32_t field_count,
                             hk_error* error);
} hk_objective;

#endif
