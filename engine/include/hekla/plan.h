// What a training, a generation or a pass would take, before anything of it is made: memory by kind, dispatches, time,
// the dearest nodes. For the context's device, or for one that is only described: a context without a device plans too.
//
//     hk_device_limits limits = {sizeof limits};
//     hk_device_limits_named(name, &limits, error);   // "cpu", "desktop", "mobile"; then changed as one likes
//     plan.mode = HK_PLAN_GENERATE;
//     plan.model = folder;
//     plan.length = 256;
//     plan.limits = &limits;
//     hk_plan(context, &plan, error);                 // plan.report is called once
#ifndef HEKLA_PLAN_H
#define HEKLA_PLAN_H

#include "hekla/hekla.h"

#ifdef __cplusplus
extern "C" {
#endif

// A device as far as plans go.
typedef struct hk_device_limits {
    uint32_t struct_size;
    int32_t cpu;                    // not 0: kernels as a CPU likes them
    uint32_t subgroup_size;         // lanes: a power of two, 4 to 128
    uint32_t max_group_invocations; // maxComputeWorkGroupInvocations
    uint32_t shared_memory;         // maxComputeSharedMemorySize
    int32_t storage16;              // storageBuffer16BitAccess
    int32_t uniform_loads;          // not 0: as Mesa's CPU driver, loads through one address are cheap
    int32_t generated_shaders;      // not 0: GLSL is compiled at run time, so that pointwise operations are fused
    int32_t mapped;                 // not 0: the host writes into device memory, no staging is needed
    int32_t reserved;               // zero
    uint64_t max_allocation;        // bytes: maxMemoryAllocationSize
    uint64_t memory;                // bytes of the device; 0: not known
    double flops;                   // float32 operations a second
    double bandwidth;               // bytes of device memory a second
} hk_device_limits;

// Round numbers of a kind of device: "cpu", "desktop" (a discrete GPU), "mobile". HK_NOT_FOUND names these.
// [any-thread]
HK_EXPORT int32_t hk_device_limits_named(hk_string name, hk_device_limits* out, hk_error* error);
// Of the context's device; `memory` is what is free there now, below the context's cap. `flops` and `bandwidth` are
// round numbers for its kind. [any-thread]
HK_EXPORT int32_t hk_device_limits_of(hk_context context, hk_device_limits* out, hk_error* error);

#define HK_PLAN_TRAIN ((int32_t)0)    // of a recipe. The unit of time: a step, its micro-batches and the update
#define HK_PLAN_GENERATE ((int32_t)1) // of a model. The unit: a token of every row
#define HK_PLAN_FORWARD ((int32_t)2)  // of a model. The unit: a pass

// Estimated: what each dispatch computes or moves, by `flops` and `bandwidth`; nothing was run.
#define HK_TIME_ESTIMATED ((int32_t)0)
#define HK_TIME_MEASURED ((int32_t)1)    // without the update
#define HK_TIME_ONE_EXAMPLE ((int32_t)2) // measured with one example, as often as a step has them

// What the dispatches of one node of the graph take in a unit.
typedef struct hk_plan_node {
    hk_string name; // "matmul in block.3/attention"
    uint64_t dispatches;
    double microseconds, flops, bytes;
} hk_plan_node;

// Bytes of device memory, with what lies behind and between buffers: of a call; a session has 4 MiB of staging besides.
// Not planned: what drivers take for pipelines and command buffers; texts written in evaluations; what a frozen body
// says, kept on the host.
typedef struct hk_plan_report {
    uint32_t struct_size;
    int32_t time; // HK_TIME_*
    uint64_t weights;
    uint64_t gradients;
    uint64_t optimizer;   // moments, counters, averages
    uint64_t states;      // key-value caches, the model's buffers, fields and ports that stay on the device
    uint64_t activations; // of the largest program: all share them
    uint64_t programs;    // constants, inputs, outputs, argument records
    uint64_t staging;
    uint64_t total;
    uint64_t largest;   // of one allocation
    uint64_t available; // hk_device_limits.memory: 0 if it is not known
    int64_t parameters; // numbers
    int64_t rows, length;
    int64_t units; // steps that are left of the recipe; 0 of a model
    uint64_t dispatches;
    double flops, bytes, microseconds; // of a unit
    const hk_plan_node* nodes;         // dearest first
    uint64_t node_count;
    hk_string text; // all of it for people
} hk_plan_report;

typedef struct hk_plan_options {
    uint32_t struct_size;
    int32_t mode;     // HK_PLAN_*
    hk_string recipe; // of HK_PLAN_TRAIN: path of a TOML file. Its data is read, and a tokenizer trained, as for a run
    const hk_string* overrides;
    uint64_t override_count;
    hk_string model;        // of the others: as hk_model_open opens it. Weights stay unread
    int64_t rows;           // 0: 1
    int64_t length;         // generation: tokens of a row, prompt and answer; of an encoder-decoder, of its source too
    const hk_string* ports; // of HK_PLAN_FORWARD, as hk_forward_options has them
    uint64_t port_count;
    int32_t attention; // of HK_PLAN_FORWARD
    int32_t weights;   // of HK_PLAN_GENERATE: as hk_generate_options.weights
    // Not 0, of HK_PLAN_TRAIN on the context's device: everything is made and the first batch run a few times, so that
    // times are measured. No parameter changes, no folder is left behind.
    int32_t measure;
    int32_t reserved;               // zero
    const hk_device_limits* limits; // null: the context's device
    void* user;
    void(HK_ABI* report)(void* user, const hk_plan_report* report); // called once
    void(HK_ABI* message)(void* user, hk_string message);           // may be null
} hk_plan_options;

// Errors: neither limits nor a device; a model or recipe that cannot be described; what does not fit into any device
// ("the tensor ... takes"). More than `available` is no error here. [any-thread], one at a time a context
HK_EXPORT int32_t hk_plan(hk_context context, const hk_plan_options* options, hk_error* error);

#ifdef __cplusplus
}
#endif

#endif
