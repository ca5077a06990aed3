// Sessions: a model that is trained or used inside a host's frames. A session has a thread, which compiles, reads
// files, chooses tokens and makes batches. The device works on a session only when the host calls hk_session_advance,
// for as many microseconds as that call grants.
//
//     hk_session_generate(context, &generate, NULL, &session, error);          // returns at once
//     ...
//     hk_advance advance = {sizeof advance};                                    // every frame
//     advance.microseconds = 2000;
//     hk_session_advance(session, &advance, NULL, error);
//     ...
//     hk_session_destroy(session);
//
// The callbacks of a session's options are called on its thread, while Hekla holds no lock, and may call any function
// that does not wait for this session. The results have the same bits whatever the budgets are.
//
// Generations and passes of one model on one context share the weights on the device, if they store them in the same
// precision and have the same head, and the files did not change. Where the context has no threads, a session shares
// only with sessions that have prepared before.
//
// Made by tools/generate_abi from engine/api/host_api.json. Edit that instead.
// clang-format off
#ifndef HEKLA_SESSION_H
#define HEKLA_SESSION_H

#include "hekla/hekla.h"

#ifdef __cplusplus
extern "C" {
#endif

// A training, a generation or passes, on the device of a context. Several of them and calls may run at a time.
typedef struct hk_session {
    // Number of the object; 0 is null.
    uint64_t id;
} hk_session;

// A point on a timeline semaphore of the host.
typedef struct hk_timeline {
    // VkSemaphore. Required.
    uint64_t semaphore;
    // Value of the semaphore at that point.
    uint64_t value;
} hk_timeline;

// States of a session.
#define HK_SESSION_PREPARING ((int32_t)0) // reads, compiles, allocates and measures; uses the device without a budget
#define HK_SESSION_WORKING ((int32_t)1) // has work for hk_session_advance
#define HK_SESSION_IDLE ((int32_t)2) // waits for hk_session_prompt or hk_session_pass
#define HK_SESSION_DONE ((int32_t)3) // trained, or stopped
#define HK_SESSION_FAILED ((int32_t)4) // ended with an error: hk_session_info.message
#define HK_SESSION_RELEASED ((int32_t)5) // its memory is evicted: continues after hk_session_restore_memory

// Options of all kinds of sessions.
typedef struct hk_session_options {
    // sizeof(hk_session_options).
    uint32_t struct_size;
    // Zero.
    uint32_t reserved;
    // Longest time that one dispatch should take on the device, in microseconds; 0 means 250.
    double microseconds;
    // Generations: tokens that a row has room for, prompt and answer. Later prompts that fit need no compilation. 0
    // means what the first prompts need.
    int64_t length;
} hk_session_options;

// What a session does.
typedef struct hk_session_info {
    // sizeof(hk_session_info).
    uint32_t struct_size;
    // HK_SESSION_*.
    int32_t state;
    // Code of the error of HK_SESSION_FAILED; else HK_OK.
    int32_t code;
    // Nonzero: ended by hk_session_stop or the stop callback.
    int32_t stopped;
    // Progress of the preparation: 0 to 1.
    double progress;
    // Steps done, tokens generated in all rows, or passes done.
    int64_t step;
    // Longest piece of work measured so far, in microseconds: smaller budgets cannot be kept.
    double longest;
    // Message of HK_SESSION_FAILED; else "". Valid until the session is destroyed.
    hk_string message;
} hk_session_info;

// Starts a training and returns at once; what the options point to is copied. The session owns the run's folder until
// it ends. Errors in the recipe and in the data end the session (HK_SESSION_FAILED). `session_options` may be null.
// Errors: no device. [any-thread]
HK_EXPORT int32_t hk_session_train(hk_context context, const hk_train_options* options,
                                   const hk_session_options* session_options, hk_session* out, hk_error* error);

// Starts a generation, as hk_session_train does. Errors: no device; `beams` above 1; `reference`. [any-thread]
HK_EXPORT int32_t hk_session_generate(hk_context context, const hk_generate_options* options,
                                      const hk_session_options* session_options, hk_session* out, hk_error* error);

// A LoRA adapter in host memory, checked against a model. Immutable: any thread may use it, several at once.
typedef struct hk_loaded_adapter {
    // Number of the object; 0 is null.
    uint64_t id;
} hk_loaded_adapter;

// Reads the folder of a LoRA adapter, of a run or of PEFT, for the model of another folder, or for an exported file
// with adapter slots; uses no device. Errors: it is damaged, of another kind, or was trained with another model; the
// file has no slots. [any-thread], one call per context at a time
HK_EXPORT int32_t hk_adapter_open(hk_context context, hk_string folder, hk_string model, hk_loaded_adapter* out,
                                  hk_error* error);

// Destroys the adapter; slots keep what they contain. [any-thread]
HK_EXPORT void hk_adapter_destroy(hk_loaded_adapter adapter);

// What hk_session_adapter_row changes.
#define HK_ADAPTER_FROM_START ((int32_t)0) // the row's prompt and tokens are computed again with the adapter (default)
#define HK_ADAPTER_FROM_HERE ((int32_t)1) // they stay as they are; only later tokens use the adapter

// Puts an adapter into a slot of a generation with hk_generate_options.adapter_slots; null empties the slot. It is
// copied before the session's next token, within the budgets of hk_session_advance, and needs no memory on the device
// that was not there before. Errors: the session is not prepared, or has no such slot; a row uses the slot; the
// adapter has a larger rank, or acts at modules without slots. [any-thread]
HK_EXPORT int32_t hk_session_adapter_put(hk_session session, int32_t slot, hk_loaded_adapter adapter, hk_error* error);

// Sets the slot that a row (a prompt) uses from its next token on, -1 for none, and what its change is multiplied by.
// `flags`: HK_ADAPTER_*. An encoder reads the row's prompt again with HK_ADAPTER_FROM_START, and not otherwise.
// Errors: the session is not prepared, or has no such row or slot; a scale that is not finite. [any-thread]
HK_EXPORT int32_t hk_session_adapter_row(hk_session session, uint64_t row, int32_t slot, double scale, int32_t flags,
                                         hk_error* error);

// A range of a VkBuffer. Buffers of the host are created with VK_BUFFER_USAGE_STORAGE_BUFFER_BIT and
// VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT, on memory that was allocated with VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT.
// They are concurrent, or owned by the family of Hekla's queue: the host releases one to that family before a pass,
// and acquires it afterwards. They stay the host's, and must live until the session has ended.
typedef struct hk_buffer {
    // sizeof(hk_buffer).
    uint32_t struct_size;
    // VkBufferUsageFlags.
    uint32_t usage;
    // VkBuffer. Required.
    uint64_t buffer;
    // Offset of the range, in bytes; `address` + `offset` is a multiple of 256.
    uint64_t offset;
    // Size of the range, in bytes.
    uint64_t bytes;
    // vkGetBufferDeviceAddress of the whole buffer; 0 means that Hekla calls it.
    uint64_t address;
    // Index of the queue family that owns the buffer, where it is not concurrent.
    uint32_t queue_family;
    // Nonzero: VK_SHARING_MODE_CONCURRENT. Default 0: exclusive.
    int32_t concurrent;
    // Nonzero: the memory was allocated with VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT, which passes require.
    int32_t memory_has_address;
    // Zero.
    int32_t reserved;
} hk_buffer;

// Kinds of the elements of a tensor.
#define HK_TENSOR_FLOAT32 ((int32_t)0) // 32-bit floating point
#define HK_TENSOR_INT32 ((int32_t)1) // 32-bit signed integers

// Largest rank of a tensor.
#define HK_TENSOR_DIMS 8

// A tensor on the device, row-major.
typedef struct hk_tensor {
    // sizeof(hk_tensor).
    uint32_t struct_size;
    // HK_TENSOR_*.
    int32_t kind;
    // Number of dimensions, up to HK_TENSOR_DIMS.
    uint32_t rank;
    // Attention maps of a session with a decoder_length: bit d is set where dimension d counts positions of the
    // decoder. Else 0.
    uint32_t decoder_axes;
    // Elements along each dimension; the last one is contiguous.
    int64_t dims[HK_TENSOR_DIMS];
    // Where the elements are: `address` + `offset` is the address of the first one, for shaders of the host.
    hk_buffer buffer;
} hk_tensor;

// A field ("input_ids", int32 [rows, length]) or port of a model in a buffer of the host.
typedef struct hk_binding {
    // Name of the field or port. Required.
    hk_string name;
    // Where its elements are.
    hk_buffer buffer;
} hk_binding;

// Passes of a model over rows of one length, whose outputs stay on the device.
typedef struct hk_forward_options {
    // sizeof(hk_forward_options).
    uint32_t struct_size;
    // Nonzero: also outputs the map of every attention, [rows, heads, queries, keys]: "attention.0", "attention.1"
    // and so on.
    int32_t attention;
    // Folder or file of a model, as in hk_model_open. Required.
    hk_string model;
    // Rows of a pass, 1 or more.
    int64_t rows;
    // Tokens of a row, 1 or more.
    int64_t length;
    // Named outputs of the network: "hidden", "layer.3.hidden". May be null with `attention` or `lens`.
    const hk_string* ports;
    // Number of ports.
    uint64_t port_count;
    // Fields and ports in buffers of the host; all others are in buffers of Hekla. May be null.
    const hk_binding* bindings;
    // Number of bindings.
    uint64_t binding_count;
    // Passed to `done`. May be null.
    void* user;
    // Called on the session's thread when the device has finished a pass; the first pass is 1. May be null.
    void(HK_ABI* done)(void* user, uint64_t pass);
    // Nonzero: also outputs the logits that the head computes from the hidden state after each layer: "lens.0" (the
    // input of the first layer) to "lens.L" (the model's logits). Operations between the last layer and the head,
    // such as a norm, are included. For models that offer "layer.N.hidden" and "logits".
    int32_t lens;
    // Zero.
    int32_t reserved;
    // Encoder-decoders: tokens of a row of the decoder ("decoder_input_ids"). 0 (default): the decoder reads the
    // encoder's ids, shifted by one position. 0 for all other models.
    int64_t decoder_length;
} hk_forward_options;

// Makes a session for passes, as hk_session_train does; it is idle when it has prepared. For a recurrent model,
// `attention` outputs one map, of the weights that its network offers. [any-thread]
HK_EXPORT int32_t hk_session_forward(hk_context context, const hk_forward_options* options,
                                     const hk_session_options* session_options, hk_session* out, hk_error* error);

// Starts a pass over token ids, [rows, length], of which the first lengths[r] of row r count (`lengths` null: all of
// them). `ids` null: the ids are in the buffer bound to "input_ids", and the mask in that of "attention_mask" where
// the model reads it. Errors: a pass runs; an id that is not in the vocabulary; shorter rows where the model reads no
// mask. [any-thread]
HK_EXPORT int32_t hk_session_pass(hk_session session, const int32_t* ids, const uint64_t* lengths, hk_error* error);

// Starts a pass of a session with a decoder_length. `decoder_ids`, [rows, decoder_length], begin with the decoder's
// first token (hk_model_info.decoder_start); null: they are in the buffer bound to "decoder_input_ids". [any-thread]
HK_EXPORT int32_t hk_session_pass_pair(hk_session session, const int32_t* ids, const uint64_t* lengths,
                                       const int32_t* decoder_ids, hk_error* error);

// Describes where a field or port is, once the session has prepared. Its content is the host's while the session is
// idle. A host that reads it on the device waits for the signal of the advance in which the pass ended, or reads it
// later in the same queue where that advance was recorded into a command buffer. Errors: no such field or port; the
// session has not prepared, or its memory is released. [any-thread]
HK_EXPORT int32_t hk_session_tensor(hk_session session, hk_string name, hk_tensor* out, hk_error* error);

// Sets the next prompts of a generation: as many as the first time. Text that is still being generated ends there.
// [any-thread]
HK_EXPORT int32_t hk_session_prompt(hk_session session, const hk_string* prompts, uint64_t count, hk_error* error);

// Sets a step scalar: a number that the graph of a plugin names with hk_graph_interface.step_scalar. It holds from
// the next step (training) or pass (forward) on, replaces a schedule of the recipe, and is kept in checkpoints.
// Errors: the session is still being prepared, has ended or generates text; a name that the graph does not have; a
// value that is not a finite float32 number. [any-thread]
HK_EXPORT int32_t hk_session_set_scalar(hk_session session, hk_string name, double value, hk_error* error);

// Describes the session, as soon as it has prepared or `nanoseconds` have passed; 0 does not wait. [any-thread]
HK_EXPORT int32_t hk_session_wait(hk_session session, uint64_t nanoseconds, hk_session_info* out, hk_error* error);

// How much work the device may do now, and where it is recorded.
typedef struct hk_advance {
    // sizeof(hk_advance).
    uint32_t struct_size;
    // Zero.
    uint32_t reserved;
    // Budget of device time, in microseconds. One piece of work is taken however long it is; 0 means none.
    double microseconds;
    // Points to wait for before the work. May be null.
    const hk_timeline* waits;
    // Number of waits.
    uint64_t wait_count;
    // Points to signal after the work, also where there is none; not where `busy` is set or an error is returned. May
    // be null.
    const hk_timeline* signals;
    // Number of signals.
    uint64_t signal_count;
    // VkCommandBuffer that the work is recorded into, with barriers before and after it: recording, outside of a
    // render pass. Null (default): Hekla submits to its queue. With a command buffer there are no waits and signals,
    // but a lease. The host submits such command buffers to one queue, in the order of the calls.
    void* command_buffer;
    // Point that the host signals when `command_buffer` has been executed, once. Until then the objects that the
    // commands use do not change; later calls may record into the same frame or a later one. The host signals every
    // lease before it destroys the session, which waits for them.
    hk_timeline lease;
} hk_advance;

// What hk_session_advance did.
typedef struct hk_advanced {
    // sizeof(hk_advanced).
    uint32_t struct_size;
    // HK_SESSION_*.
    int32_t state;
    // Nonzero: nothing was started, because the pieces of earlier calls still run.
    int32_t busy;
    // Nonzero: there is work that did not fit the budget.
    int32_t more;
    // Pieces of work that were started; 0 means that nothing was recorded or submitted, except signals.
    uint64_t pieces;
    // Time that these pieces should take, in microseconds.
    double expected;
    // Time that the pieces of the newest finished call took, in microseconds; 0 means none yet, or no timestamps.
    double measured;
} hk_advanced;

// Starts work on the device within a budget, from where the last call ended. Does not wait, compile, allocate device
// memory or touch files; the session's thread works on the CPU meanwhile. `out` may be null. Errors: of the device;
// of a session that failed. [any-thread], one call per session at a time
HK_EXPORT int32_t hk_session_advance(hk_session session, const hk_advance* advance, hk_advanced* out, hk_error* error);

// Runs a session of a context with no_threads on this thread, callbacks included, until it is done, failed or
// destroyed; hk_session_wait tells which. Waits for what the host does on other threads: hk_session_advance,
// hk_session_prompt. Errors: the session has a thread; it was run before. [any-thread]
HK_EXPORT int32_t hk_session_run(hk_session session, hk_error* error);

// What hk_context_pump left.
typedef struct hk_pumped {
    // sizeof(hk_pumped).
    uint32_t struct_size;
    // Sessions that have not ended, without those in hk_session_run.
    int32_t sessions;
    // Of these, how many wait for the host: hk_session_advance, hk_session_prompt, hk_session_pass.
    int32_t waiting;
    // Zero.
    int32_t reserved;
} hk_pumped;

// Runs the sessions of a context with no_threads on this thread, callbacks included. Each runs until it waits, in
// turn, until all wait for the host or `nanoseconds` have passed (0: once each); waiting for the device takes at most
// a millisecond. A session that does not wait is not interrupted, so while one prepares, a call may take as long as a
// driver compiles. After hk_session_stop, call this until the session is done. Functions that wait for a session
// (release_memory, restore_memory, destroy, hk_device_release) run it themselves. `out` may be null. Errors: the
// context has threads or jobs; called from a callback of a session. [any-thread], one call per context at a time
HK_EXPORT int32_t hk_context_pump(hk_context context, uint64_t nanoseconds, hk_pumped* out, hk_error* error);

// The callbacks of a session, for a host that reloads its own code. Each member replaces the option of that name. One
// that the session was made without is not called.
typedef struct hk_session_callbacks {
    // sizeof(hk_session_callbacks).
    uint32_t struct_size;
    // Zero.
    uint32_t reserved;
    // Passed to the callbacks. May be null.
    void* user;
    // See hk_train_options.step. May be null.
    void(HK_ABI* step)(void* user, const hk_train_step* step);
    // See hk_train_options.evaluation. May be null.
    void(HK_ABI* evaluation)(void* user, const hk_train_evaluation* evaluation);
    // See hk_train_options.message. May be null.
    void(HK_ABI* message)(void* user, hk_string message);
    // See hk_generate_options.text. May be null.
    void(HK_ABI* text)(void* user, uint64_t row, hk_string text);
    // See hk_forward_options.done. May be null.
    void(HK_ABI* done)(void* user, uint64_t pass);
    // See hk_train_options.stop and hk_generate_options.stop. May be null.
    int32_t(HK_ABI* stop)(void* user);
    // See hk_generate_options.token. May be null.
    void(HK_ABI* token)(void* user, uint64_t row, const hk_generated_token* token);
} hk_session_callbacks;

// Replaces the callbacks, and returns when no old one runs any more. Errors: called from a callback of the session.
// [any-thread]
HK_EXPORT int32_t hk_session_replace_callbacks(hk_session session, const hk_session_callbacks* callbacks,
                                               hk_error* error);

// Evicts the device memory of a session that has prepared, also in the middle of a step: copies it to the host and
// frees all of it (vkFreeMemory, or the room in the host's ranges). Weights that other sessions share are evicted
// with the last of them. Waits for what the device has begun, leases included. Until hk_session_restore_memory,
// hk_session_advance starts nothing. Several threads may call it; each has its own time limit. Succeeds where the
// memory is evicted already. Errors: HK_CANCELLED: the session was still busy after `nanoseconds` (on the CPU, or
// with a lease); HK_OUT_OF_MEMORY on the host. Nothing is changed then. [any-thread], not from a callback of the
// session
HK_EXPORT int32_t hk_session_release_memory(hk_session session, uint64_t nanoseconds, hk_error* error);

// Restores the memory of a session, which continues with the same bits. Ports, fields in Hekla's buffers and
// parameters have other addresses afterwards (hk_session_tensor, hk_session_parameter). Waits until it is done.
// Succeeds where the memory was not evicted. Errors: HK_OUT_OF_MEMORY: it stays evicted, call it again. [any-thread],
// not from a callback of the session
HK_EXPORT int32_t hk_session_restore_memory(hk_session session, hk_error* error);

// Ends a training after its step, with a checkpoint, or a generation after its token, as their stop callbacks do. The
// host continues to advance the session until it is done. [any-thread]
HK_EXPORT int32_t hk_session_stop(hk_session session, hk_error* error);

// Destroys a session at once: waits for its thread and for what the device has begun. A training loses what its last
// checkpoint does not have. From one of its own callbacks, the session ends when that callback has returned.
// [any-thread]
HK_EXPORT void hk_session_destroy(hk_session session);

#ifdef __cplusplus
}
#endif

#endif
