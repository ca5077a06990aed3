// Examples: the data from which an objective makes fields.
//
// Everything is owned by the host and valid until the call returns that it was passed to.
//
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.
// clang-format off
#ifndef HEKLA_PLUGIN_EXAMPLE_H
#define HEKLA_PLUGIN_EXAMPLE_H

#include "error.h"

// Contents of a column.
#define HK_COLUMN_TOKENS ((int32_t)0) // ids of a text, without special tokens; parts: its sentences, where they matter
#define HK_COLUMN_WORDS ((int32_t)1) // ids of a text that the data has as separate words; parts: the words
#define HK_COLUMN_CHOICES ((int32_t)2) // ids of several texts, one after the other; parts: the texts
#define HK_COLUMN_CLASSES ((int32_t)3) // numbers of classes: one per row, or one per word
#define HK_COLUMN_NUMBERS ((int32_t)4) // real numbers
// Position of a part of a text: ids are its first token and one past its last, in the nearest column of tokens that
// the objective names before it. The data has the part itself and, in the column of numbers that the objective names
// after it, possibly the character of the text at which it begins; otherwise it is the first such part.
#define HK_COLUMN_SPANS ((int32_t)5)
#if HK_TARGET_ABI_MINOR >= 1
// ids of a conversation as the chat template writes it, with all of its special tokens; parts: alternately what was
// given and what the assistant writes with the end of its turn, given first. A column that asks for tokens has this
// kind in an example whose data has messages there: ids are those of the prompt up to where the assistant begins, or
// of an answer with the end of its turn, and there are no parts.
#define HK_COLUMN_MESSAGES ((int32_t)6)
#endif

// One column of an example. Only the members of its kind are read.
typedef struct hk_column {
    uint32_t struct_size;
    int32_t kind;          // HK_COLUMN_*
    hk_string name;
    const int32_t* ids;    // all kinds but numbers; -1 is an unknown class
    const float* numbers;
    uint64_t size;         // number of ids or numbers
    const uint64_t* parts; // start of each part in ids, ascending from 0
    uint64_t part_count;
} hk_column;

// One example. `index` and `epoch`, with the seed of the batch, are the key of every random number for it.
typedef struct hk_example {
    uint32_t struct_size;
    uint32_t column_count;
    const hk_column* columns; // elements have the size that their struct_size gives
    uint64_t index;           // in the corpus
    uint64_t epoch;           // UINT64_MAX in evaluations, so that all evaluations draw the same numbers
    uint64_t document;        // number of the text that it was cut from; examples of one text are consecutive
} hk_example;

// All examples of the split that a batch was drawn from, eg: to find a sentence that does not follow.
typedef struct hk_corpus {
    uint32_t struct_size;
    uint32_t reserved; // zero
    uint64_t example_count;
    void* context;     // for get()

    // Writes the example of an index below example_count into one whose struct_size is set [abi.5]; valid until the
    // calling collate() returns.
    // [worker]
    int32_t(HK_ABI* get)(void* context, uint64_t index, hk_example* example, hk_error* error);
} hk_corpus;

// Input of collate().
typedef struct hk_batch {
    uint32_t struct_size;
    // may be less than the number of rows of the fields: the other rows must have no weight in any loss or metric
    uint32_t example_count;
    const hk_example* examples; // one per row
    const hk_corpus* corpus;    // null: only the examples above exist
    uint64_t seed;
#if HK_TARGET_ABI_MINOR >= 1
    // number of the step of the training that the batch is for, from 0; in evaluations that of the last step before,
    // and 0 outside of trainings. Where layers are frozen, their results for the rows of a table may be computed
    // once, for a step before the first: there the fields that they read must not depend on it
    uint64_t step;
#endif
} hk_batch;

#endif
