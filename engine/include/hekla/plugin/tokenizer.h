// The run's tokenizer, as objectives and heads see it.
//
// - Where a tokenizer may be null, no function is called with it. [tokenizer.1]
//
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.
// clang-format off
#ifndef HEKLA_PLUGIN_TOKENIZER_H
#define HEKLA_PLUGIN_TOKENIZER_H

#include "error.h"

// Owned by the host; valid until destroy() of the instance that it was given to.
typedef struct hk_tokenizer hk_tokenizer;

#define HK_TOKENIZER_INTERFACE "hekla.tokenizer/1"

typedef struct hk_tokenizer_interface {
    // Number of ids: 0 .. size - 1.
    // [any-thread]
    int64_t(HK_ABI* vocabulary_size)(const hk_tokenizer* tokenizer);

    // The id of the token with a role: "bos" "eos" "pad" "unk" "mask" "separator" "classifier", "sentinel.0" ...; -1
    // if none. Since minor 2 also what the tokenizer puts around texts: "frame" is 0 where rows have it;
    // "frame.LIST.N" is entry N of a list, and -1 after the last. The lists: "single.before" "single.after" around
    // one text; "pair.before" "pair.between" "pair.after" around two; "single.types" "pair.types", the token types of
    // special tokens and texts in order; "begin", what begins a prompt.
    // [any-thread]
    int64_t(HK_ABI* id_of_role)(const hk_tokenizer* tokenizer, hk_string role);

    // 1 if the token begins a word, else 0. Ids outside the vocabulary: 0.
    // [any-thread]
    int32_t(HK_ABI* is_word_start)(const hk_tokenizer* tokenizer, int64_t id);

    // Writes the text of ids into a caller's buffer of *size bytes; *size becomes the bytes needed. With a null or
    // too small buffer nothing is written and HK_OK is returned: call again with more space.
    // [any-thread]
    int32_t(HK_ABI* decode)(const hk_tokenizer* tokenizer, const int64_t* ids, uint64_t count, char* text,
                            uint64_t* size, hk_error* error);

    // 1 if the token ends a sentence (its text ends in a full stop, a question or exclamation mark, or a line end),
    // else 0. Ids outside the vocabulary: 0.
    // [any-thread]
    int32_t(HK_ABI* is_sentence_end)(const hk_tokenizer* tokenizer, int64_t id);
} hk_tokenizer_interface;

#endif
