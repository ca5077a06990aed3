// An optimizer: how a step changes a parameter.
// Since minor 1.
//
// A recipe's [optimizer] names an optimizer, or several, each for parameters of some names. For every shape of
// parameter that one is used for, the host asks it to describe the update once: a graph that computes the new values
// of the parameter from its values, its gradient, the learning rate and the number of the step. The engine fuses,
// plans and computes it like every other graph, after the gradients of a step are complete. Gradients that are not
// finite, clipping, accumulation and loss scaling are the host's: a skipped step changes neither parameters nor
// states.
// What an optimizer remembers of a parameter from step to step is a state. state_read(initial, name) declares it and
// gives its value; state_write(value, name) sets the value of the next step. Each parameter has states of its own; a
// checkpoint contains them as tensors "NAME.PARAMETER", such as "exp_avg.h.0.attn.c_attn.weight".
//
// - create() may be called many times, in many processes; instances share no state. After HK_OK *self is not null;
//   destroy() is called with it once. [optimizer.1]
// - The updated value is float and has the shape of the parameter, and what is written to a state has the shape of
//   its initial value. [optimizer.2]
// - A state is read once and written once under one name, of letters, digits and _. Its initial value is a fill, for
//   all elements. [optimizer.3]
// - build() computes from the values that it is given alone: it uses no fields, parameters, buffers, step scalars,
//   ports, losses, metrics or random numbers, and leaves no scope or region open. [optimizer.4]
// - The same configuration and parameter give the same graph, whatever was described before. [optimizer.5]
// - Finite parameters and gradients, among them gradients that are 0 everywhere, give finite parameters and states.
//   [optimizer.6]
//
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.
// clang-format off
#ifndef HEKLA_PLUGIN_OPTIMIZER_H
#define HEKLA_PLUGIN_OPTIMIZER_H

#include "config.h"
#include "entry.h"
#include "graph.h"

#if HK_TARGET_ABI_MINOR >= 1

// Flags of a parameter.
#define HK_OPTIMIZED_DECAYS ((uint32_t)1u) // weight decay applies to it; without it (norms, biases) it must not decay
#define HK_OPTIMIZED_TABLE ((uint32_t)2u) // it is the table of an embedding, whose rows are looked up

// A parameter that is updated.
typedef struct hk_optimized {
    uint32_t struct_size;
    uint32_t rank;
    int64_t dims[HK_MAX_RANK];
    uint32_t flags;    // HK_OPTIMIZED_*
    uint32_t reserved; // zero
} hk_optimized;

// What an update is computed from.
typedef struct hk_update_values {
    uint32_t struct_size;
    hk_value parameter;     // float, before the step
    hk_value gradient;      // float, of the parameter's shape: the mean over the batch of the step, clipped
    hk_value learning_rate; // float scalar: of this step, with the parameter's own factor
    hk_value step;          // float scalar: the number of this update, from 1; skipped steps do not count
    uint32_t reserved;      // zero
} hk_update_values;

#define HK_OPTIMIZER_INTERFACE "hekla.optimizer/1"

typedef struct hk_optimizer {
    // Reads the configuration (a recipe's [optimizer], completed by the manifest's defaults). config is valid during
    // the call only. [optimizer.1]
    // [any-thread]
    int32_t(HK_ABI* create)(const hk_config* config, void** self, hk_error* error);

    // Frees what create() made.
    // [any-thread]
    void(HK_ABI* destroy)(void* self);

    // Writes 1 if it updates such a parameter, 0 if AdamW should. *taken is 1 before. Null: it takes every parameter.
    // [optimizer.5]
    // [any-thread]
    int32_t(HK_ABI* takes)(void* self, const hk_optimized* parameter, int32_t* taken, hk_error* error);

    // Describes the update, and writes the new value of the parameter. *updated is 0 before. [optimizer.2]
    // [optimizer.3] [optimizer.4] [optimizer.5] [optimizer.6]
    // [describe]
    int32_t(HK_ABI* build)(void* self, hk_builder* builder, const hk_optimized* parameter,
                           const hk_update_values* values, hk_value* updated, hk_error* error);
} hk_optimizer;

#endif

#endif
