// Draft: what an objective learns from texts that the model itself has written.
//
// Reinforcement learning proceeds in iterations. In each the host draws prompts, lets the model write completions,
// computes what needs() asks for, and scores the completions by the rewards of the recipe. weigh() makes numbers for
// each token of it (advantages, returns), which the objective's collate() sees as columns of its examples, next to
// `prompt` and `completion`. Then the model is trained with these examples for some epochs.
// An objective that learns in this way has a plugin that provides, under the same id, both hekla.objective/1 and this
// draft. Both get the same configuration; columns of the objective that are not optional are read from the data, the
// others come from here.
//
// - create() may be called many times, in many processes; instances share no state. After HK_OK *self is not null;
//   destroy() is called with it once. [rollout.1]
// - weigh() and adapt() are pure functions of their arguments: a resumed run calls them again and must get the same
//   bits. [rollout.2]
// - A column has one finite number for each token of all completions. [rollout.3]
//
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.
// clang-format off
#ifndef HEKLA_PLUGIN_DRAFT_ROLLOUT_H
#define HEKLA_PLUGIN_DRAFT_ROLLOUT_H

#include "../config.h"
#include "../entry.h"

// What an objective needs to know of every token of a completion.
#define HK_ROLLOUT_REFERENCE ((uint32_t)1u) // its log probability under the frozen reference
#define HK_ROLLOUT_VALUES ((uint32_t)2u) // the port "values" [B, T] at the position that predicts it
#define HK_ROLLOUT_ENTROPIES ((uint32_t)4u) // the entropy of the distribution that it was drawn from

// How an objective uses rollouts; zeros before.
typedef struct hk_rollout_needs {
    uint32_t struct_size;      // set by the host
    uint32_t flags;            // HK_ROLLOUT_*
    int64_t epochs;            // passes over the rollouts of an iteration; at least 1
    int64_t least_generations; // completions of each prompt, at least; 0: any number
    double kl_coef;            // the coefficient with which the first iteration begins; see adapt()
} hk_rollout_needs;

// The rollouts of one iteration. The completions of one prompt are adjacent. Owned by the host, valid during the
// call.
typedef struct hk_rollouts {
    uint32_t struct_size;
    uint32_t generations;   // completions of each prompt
    uint64_t rows;          // completions; a multiple of generations
    uint64_t iteration;     // from 0
    // [rows + 1]: where each completion begins in the arrays of tokens below; the last one is the number of all
    // tokens
    const uint64_t* begins;
    const float* logps;     // log probabilities of the tokens under the model that wrote them
    const float* ref_logps; // the same under the reference; null without HK_ROLLOUT_REFERENCE
    const float* values;    // null without HK_ROLLOUT_VALUES
    const float* entropies; // null without HK_ROLLOUT_ENTROPIES
    // [rows]: the weighted sum of the rewards; NaN: the completion could not be scored
    const double* scores;
    const uint8_t* ended;   // [rows]: 1 if the completion ends with the end token, 0 if it was cut off
    double kl_coef;         // the current coefficient
} hk_rollouts;

// Takes the results of weigh(), which are copied.
typedef struct hk_rollout_sink {
    uint32_t struct_size;
    uint32_t reserved; // zero
    void* context;     // for the functions

    // Adds a column of numbers: one for each token of all completions, in order. [rollout.3]
    // [worker]
    void(HK_ABI* column)(void* context, hk_string name, const float* numbers, uint64_t count);

    // Adds a number of the iteration to the log.
    // [worker]
    void(HK_ABI* metric)(void* context, hk_string name, double value);
} hk_rollout_sink;

#define HK_ROLLOUT_DRAFT "hekla.rollout.draft/1"

typedef struct hk_rollout_use {
    // Reads the configuration of the objective. config is valid during the call only. [rollout.1]
    // [any-thread]
    int32_t(HK_ABI* create)(const hk_config* config, void** self, hk_error* error);

    // Frees what create() made.
    // [any-thread]
    void(HK_ABI* destroy)(void* self);

    // Tells how rollouts are used.
    // [any-thread]
    int32_t(HK_ABI* needs)(void* self, hk_rollout_needs* needs, hk_error* error);

    // Makes the columns of an iteration. [rollout.2]
    // [worker]
    int32_t(HK_ABI* weigh)(void* self, const hk_rollouts* rollouts, const hk_rollout_sink* sink, hk_error* error);

    // Sets the coefficient of the next iteration, after weigh(). Null: it never changes. [rollout.2]
    // [worker]
    int32_t(HK_ABI* adapt)(void* self, const hk_rollouts* rollouts, double* kl_coef, hk_error* error);
} hk_rollout_use;

#endif
