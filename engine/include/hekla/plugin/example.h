// Examples: what the data gives, before an objective makes fields of it.
//
// All of it is the host's and valid until the call that it was given to returns.
//
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.
// clang-format off
#ifndef HEKLA_PLUGIN_EXAMPLE_H
#define HEKLA_PLUGIN_EXAMPLE_H

#include "error.h"

// What a column holds.
#define HK_COLUMN_TOKENS ((int32_t)0) // ids of a text, without special tokens; parts: its sentences, where they count
#define HK_COLUMN_WORDS ((int32_t)1) // ids of words that the data gives one by one; parts: the words
#define HK_COLUMN_CHOICES ((int32_t)2) // ids of several texts, one behind the other; parts: the texts
#define HK_COLUMN_CLASSES ((int32_t)3) // numbers of classes: one of a row, or one a word
#define HK_COLUMN_NUMBERS ((int32_t)4) // real numbers
// Where a part of a text stands: ids are its first token and one past its last, counted in the nearest column of
// tokens that the objective names before it. The data has the part itself, and perhaps, in the column of numbers that
// the objective names behind it, at which character of the text it begins; else it is the first such part.
#define HK_COLUMN_SPANS ((int32_t)5)

// One column of an example. Only the members of its kind are read.
typedef struct hk_column {
    uint32_t struct_size;
    int32_t kind;          // HK_COLUMN_*
    hk_string name;
    const int32_t* ids;    // all kinds but numbers; -1 stands for a class that is not known
    const float* numbers;
    uint64_t size;         // of ids or numbers
    const uint64_t* parts; // where each part begins in ids, ascending from 0
    uint64_t part_count;
} hk_column;

// One example. `index` and `epoch`, with the seed of the batch, key every random number of it.
typedef struct hk_example {
    uint32_t struct_size;
    uint32_t column_count;
    const hk_column* columns; // of sizeof(hk_column) as their struct_size says
    uint64_t index;           // in the corpus
    uint64_t epoch;           // UINT64_MAX in evaluations: every one of them draws the same
    uint64_t document;        // which text it was cut from; examples of one text stand behind each other
} hk_example;

// Every example of the split that a batch was drawn from, eg for a sentence that does not follow.
typedef struct hk_corpus {
    uint32_t struct_size;
    uint32_t reserved; // zero
    uint64_t example_count;
    void* context;     // for get()

    // Writes the example of an index below example_count into one whose struct_size is set [abi.5]; valid until the
    // collate that asked returns.
    // [worker]
    int32_t(HK_ABI* get)(void* context, uint64_t index, hk_example* example, hk_error* error);
} hk_corpus;

// What collate makes fields of.
typedef struct hk_batch {
    uint32_t struct_size;
    // may be fewer than the fields have rows: the rest must count nothing in any loss or metric
    uint32_t example_count;
    const hk_example* examples; // one a row
    const hk_corpus* corpus;    // null where there is none: the examples are all there is
    uint64_t seed;
} hk_batch;

#endif
