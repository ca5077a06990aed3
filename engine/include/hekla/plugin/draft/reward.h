// Draft: a reward, which scores texts.
//
// A recipe's [rewards.NAME] names rewards by `id`; their weighted sum is the score of a completion. A reward sees
// texts, not token ids, so that it is independent of the tokenizer of the model that wrote them.
//
// - create() may be called many times, in many processes; instances share no state. After HK_OK *self is not null;
//   destroy() is called with it once. [reward.1]
// - score() is a pure function of its arguments: the score of a text does not depend on the other texts. [reward.2]
//
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.
// clang-format off
#ifndef HEKLA_PLUGIN_DRAFT_REWARD_H
#define HEKLA_PLUGIN_DRAFT_REWARD_H

#include "../config.h"
#include "../entry.h"

// A completion to score. Owned by the host, valid during the call.
typedef struct hk_scored_text {
    uint32_t struct_size;
    uint32_t column_count;    // of columns()
    hk_string prompt;
    hk_string completion;     // without special tokens
    const hk_string* columns; // the texts of the row of data, in the order of columns()
} hk_scored_text;

#define HK_REWARD_DRAFT "hekla.reward.draft/1"

typedef struct hk_reward {
    // Reads the configuration: the keys of [rewards.NAME] besides id, weight and clip. config is valid during the
    // call only. [reward.1]
    // [any-thread]
    int32_t(HK_ABI* create)(const hk_config* config, void** self, hk_error* error);

    // Frees what create() made.
    // [any-thread]
    void(HK_ABI* destroy)(void* self);

    // Lists columns of the data whose texts it needs, besides the prompt, by calling `push` once for each, which
    // copies it. Null: none.
    // [any-thread]
    int32_t(HK_ABI* columns)(void* self, void(HK_ABI* push)(void* context, hk_string column), void* context,
                             hk_error* error);

    // Writes a score for each text; NaN: it cannot be scored. Elements have the size that struct_size gives.
    // [reward.2]
    // [worker]
    int32_t(HK_ABI* score)(void* self, const hk_scored_text* texts, uint64_t count, double* scores, hk_error* error);
} hk_reward;

#endif
