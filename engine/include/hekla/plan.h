// Plans: the memory, dispatches, time and most expensive operations of a training, a generation or a pass, before
// anything is made. For the context's device, or for a device that is only described, also in a context without one.
//
//     hk_device_limits limits = {sizeof limits};
//     hk_device_limits_named(name, &limits, error);   // "cpu", "desktop", "mobile"; then change what you like
//     plan.mode = HK_PLAN_GENERATE;
//     plan.model = folder;
//     plan.length = 256;
//     plan.limits = &limits;
//     hk_plan(context, &plan, error);                 // plan.report is called once
//
// Made by tools/generate_abi from engine/api/host_api.json. Edit that instead.
// clang-format off
#ifndef HEKLA_PLAN_H
#define HEKLA_PLAN_H

#include "hekla/hekla.h"

#ifdef __cplusplus
extern "C" {
#endif

// A device, as far as plans depend on it.
typedef struct hk_device_limits {
    // sizeof(hk_device_limits).
    uint32_t struct_size;
    // Nonzero: a CPU, with kernels for CPUs. 0: a GPU.
    int32_t cpu;
    // Lanes of a subgroup: a power of two, 4 to 128.
    uint32_t subgroup_size;
    // VkPhysicalDeviceLimits::maxComputeWorkGroupInvocations, 128 or more.
    uint32_t max_group_invocations;
    // VkPhysicalDeviceLimits::maxComputeSharedMemorySize, in bytes, 16384 or more.
    uint32_t shared_memory;
    // Nonzero: storageBuffer16BitAccess is supported.
    int32_t storage16;
    // Nonzero: a load from one address by all lanes is cheap, as on Mesa's CPU driver.
    int32_t uniform_loads;
    // Nonzero: GLSL is compiled at run time, so that pointwise operations are fused.
    int32_t generated_shaders;
    // Nonzero: the host writes into device memory, so that no staging is needed.
    int32_t mapped;
    // Compute units or streaming multiprocessors of a GPU; 0 means unknown. Large products are split among them.
    int32_t cores;
    // Largest allocation (maxMemoryAllocationSize), in bytes, 1 MiB or more.
    uint64_t max_allocation;
    // Memory of the device, in bytes; 0 means unknown.
    uint64_t memory;
    // Speed: float32 operations per second, above 0.
    double flops;
    // Bandwidth of device memory: bytes per second, above 0.
    double bandwidth;
} hk_device_limits;

// Fills in round numbers of a kind of device: "cpu", "desktop" (a discrete GPU), "mobile". HK_NOT_FOUND lists these.
// [any-thread]
HK_EXPORT int32_t hk_device_limits_named(hk_string name, hk_device_limits* out, hk_error* error);

// Fills in the limits of the context's device. `memory` is what is free now, below the context's limit; `flops` and
// `bandwidth` are round numbers for its kind. [any-thread], one call per context at a time
HK_EXPORT int32_t hk_device_limits_of(hk_context context, hk_device_limits* out, hk_error* error);

// What to plan, and the unit of its times.
#define HK_PLAN_TRAIN ((int32_t)0) // a recipe; unit: a step with its micro-batches and the update
#define HK_PLAN_GENERATE ((int32_t)1) // a model; unit: one token of every row
#define HK_PLAN_FORWARD ((int32_t)2) // a model; unit: a pass

// Where a time comes from.
#define HK_TIME_ESTIMATED ((int32_t)0) // from operations and bytes, with `flops` and `bandwidth`; nothing was run
#define HK_TIME_MEASURED ((int32_t)1) // measured, without the update
#define HK_TIME_ONE_EXAMPLE ((int32_t)2) // measured with one example, times the examples of a step

// The dispatches of one node of the graph, in one unit.
typedef struct hk_plan_node {
    // Operation and place: "matmul in block.3/attention". Valid during the callback.
    hk_string name;
    // Number of dispatches.
    uint64_t dispatches;
    // Duration, in microseconds.
    double microseconds;
    // Floating-point operations.
    double flops;
    // Bytes of device memory read and written.
    double bytes;
} hk_plan_node;

// A plan. Sizes are bytes of device memory of a call, with alignment; a session has 4 MiB of staging in addition. Not
// included: what drivers allocate for pipelines and command buffers, text generated in evaluations, and the features
// of a frozen model, which are on the host.
typedef struct hk_plan_report {
    // sizeof(hk_plan_report).
    uint32_t struct_size;
    // HK_TIME_* of `microseconds`.
    int32_t time;
    // Weights, those of adapters and of slots for them included, in bytes.
    uint64_t weights;
    // Gradients, in bytes.
    uint64_t gradients;
    // Moments, counters and averages of the optimizer, in bytes.
    uint64_t optimizer;
    // Key-value caches, the model's buffers, and fields and ports that stay on the device, in bytes.
    uint64_t states;
    // Activations of the largest program, in bytes; all programs share them.
    uint64_t activations;
    // Constants, inputs, outputs and kernel arguments, in bytes.
    uint64_t programs;
    // Staging buffers, in bytes.
    uint64_t staging;
    // Sum of the above, in bytes.
    uint64_t total;
    // Largest single allocation, in bytes.
    uint64_t largest;
    // Memory of the device (hk_device_limits.memory), in bytes; 0 means unknown.
    uint64_t available;
    // Number of parameters.
    int64_t parameters;
    // Rows of a unit.
    int64_t rows;
    // Tokens of a row.
    int64_t length;
    // Steps that the recipe has left; 0 for a model.
    int64_t units;
    // Dispatches of a unit.
    uint64_t dispatches;
    // Floating-point operations of a unit.
    double flops;
    // Bytes of device memory that a unit reads and writes.
    double bytes;
    // Duration of a unit, in microseconds.
    double microseconds;
    // Nodes of the graph, the most expensive first. Valid during the callback.
    const hk_plan_node* nodes;
    // Number of nodes.
    uint64_t node_count;
    // The whole report as text for people. Valid during the callback.
    hk_string text;
    // Bytes of the host's memory, not in `total`: the optimizer's moments, if train.moments_memory is "system", and
    // the completions that reinforcement learning keeps for an iteration.
    uint64_t system;
    // Number of parameters that are embeddings of the body, positions included. 0 for a model.
    int64_t embeddings;
    // Examples of an epoch of the training data, windows of a text included. 0 for a model.
    uint64_t examples;
    // Bytes that rank 0 sends to other ranks in a step and receives from them (of hk_train_step.exchanged_bytes);
    // with distributed.mode "diloco": in an average. 0 for one rank.
    uint64_t exchanged_bytes;
    // Bytes of the host's memory for gradients that are added and exchanged, of the rank with most; not in `total`.
    uint64_t exchange_memory;
    // Time of these exchanges over hk_plan_options.link_bytes_per_second, in seconds; 0 without a link.
    double exchange_seconds;
    // The part of exchange_seconds in which ranks wait, in seconds.
    double exposed_seconds;
    // Tokens that the objective predicts in a step of a training, on all ranks: the mean of some examples, times
    // those of a step. 0 for a model, and where the model writes the examples.
    double label_tokens;
} hk_plan_report;

// What to plan, and who takes the report.
typedef struct hk_plan_options {
    // sizeof(hk_plan_options).
    uint32_t struct_size;
    // HK_PLAN_*. Default HK_PLAN_TRAIN.
    int32_t mode;
    // Path of a TOML recipe. Required for HK_PLAN_TRAIN, which reads its data and trains its tokenizer as a run does.
    hk_string recipe;
    // Keys of the recipe with other values: "train.max_steps=100". May be null.
    const hk_string* overrides;
    // Number of overrides.
    uint64_t override_count;
    // Folder or file of a model, as in hk_model_open. Required for the other modes, which do not read its weights.
    hk_string model;
    // Rows of a unit; 0 means 1. Not for HK_PLAN_TRAIN.
    int64_t rows;
    // Tokens of a row, 1 or more: prompt and answer; of an encoder-decoder, also those of its source. Not for
    // HK_PLAN_TRAIN.
    int64_t length;
    // Named outputs, as in hk_forward_options.ports. For HK_PLAN_FORWARD. May be null.
    const hk_string* ports;
    // Number of ports.
    uint64_t port_count;
    // Nonzero: with attention maps, as hk_forward_options.attention. For HK_PLAN_FORWARD. Default 0.
    int32_t attention;
    // How weight matrices are stored, as hk_generate_options.weights: 0 to 2 for HK_PLAN_GENERATE, else 0.
    int32_t weights;
    // Nonzero, for HK_PLAN_TRAIN on the context's device: makes everything and runs the first batch a few times, so
    // that times are measured. No parameter changes and no folder is left. Default 0: estimated.
    int32_t measure;
    // Nonzero, for HK_PLAN_GENERATE: each row uses one of `adapters` or none, as with
    // hk_generate_options.prompt_adapters. Default 0: all of them act on all rows.
    int32_t adapters_by_row;
    // Device to plan for. Null (default): the context's.
    const hk_device_limits* limits;
    // Passed to the callbacks. May be null.
    void* user;
    // Takes the report, once. `report` is valid during the callback. Required.
    void(HK_ABI* report)(void* user, const hk_plan_report* report);
    // Takes lines about what was loaded. May be null.
    void(HK_ABI* message)(void* user, hk_string message);
    // Trained adapters on the model, as hk_generate_options.adapters, for HK_PLAN_GENERATE. Null (default): none.
    const hk_string* adapters;
    // Number of adapters.
    uint64_t adapter_count;
    // Slots for LoRA adapters, as hk_generate_options.adapter_slots, for HK_PLAN_GENERATE; 0 (default) means none.
    int32_t adapter_slots;
    // As hk_generate_options.adapter_rank.
    int32_t adapter_rank;
    // As hk_generate_options.adapter_targets.
    hk_string adapter_targets;
    // Ranks that divide a training: `total` and times are those of the rank with most; with `measure`, all ranks are
    // as fast as the context's device. For HK_PLAN_TRAIN. 0 (default) or 1: one.
    int32_t ranks;
    // Machines with a link each, over which the ranks are divided evenly; 0 (default) means as many as ranks.
    int32_t nodes;
    // Speed of a machine's link in each direction, in bytes per second; 0 (default) means not known.
    double link_bytes_per_second;
    // Time of a message without bytes over the link, in seconds. Default 0.
    double link_latency;
} hk_plan_options;

// Plans a training, a generation or a pass. A plan that needs more than `available` succeeds. Errors: neither limits
// nor a device; a model or recipe that cannot be described; a tensor that is larger than any allocation of the
// device. [any-thread], one call per context at a time
HK_EXPORT int32_t hk_plan(hk_context context, const hk_plan_options* options, hk_error* error);

#ifdef __cplusplus
}
#endif

#endif
