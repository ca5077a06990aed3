// Sessions: a model that is trained or writes inside an app's frames. A session has a thread of its own, which
// compiles, reads files, chooses tokens and makes batches; what it wants the device to do waits until the app says how
// much of it may be done now.
//
//     hk_session_generate(context, &generate, NULL, &session, error);          // returns at once
//     ...
//     hk_advance advance = {sizeof advance};                                    // every frame
//     advance.microseconds = 2000;
//     hk_session_advance(session, &advance, NULL, error);
//     ...
//     hk_session_destroy(session);
//
// The callbacks of the options that a session was made with are called on the session's thread, under no lock of
// Hekla's: they may call any function of a session or context. A session does the same work in the same order whatever
// the budgets are, so it ends with the same bits.
//
// Texts and passes of one model on one context read the same weights on the device, as long as its files stay as they
// are and both hold them in the same precision and have the same head. Where a context begins no threads, only what was
// prepared before is found.
#ifndef HEKLA_SESSION_H
#define HEKLA_SESSION_H

#include "hekla/hekla.h"

#ifdef __cplusplus
extern "C" {
#endif

// Work on the device of a context, beside other sessions and calls of the same context.
typedef struct hk_session {
    uint64_t id;
} hk_session;

// A point on a timeline semaphore of the host's.
typedef struct hk_timeline {
    uint64_t semaphore; // VkSemaphore
    uint64_t value;
} hk_timeline;

#define HK_SESSION_PREPARING ((int32_t)0) // reads, compiles, allocates and measures; uses the device as it needs it
#define HK_SESSION_WORKING ((int32_t)1)   // goes on as it is advanced
#define HK_SESSION_IDLE ((int32_t)2)      // everything is written: waits for hk_session_prompt
#define HK_SESSION_DONE ((int32_t)3)      // trained, or stopped
#define HK_SESSION_FAILED ((int32_t)4)    // hk_session_info.message says why
#define HK_SESSION_RELEASED ((int32_t)5)  // its memory was given back: goes on after hk_session_restore_memory

typedef struct hk_session_options {
    uint32_t struct_size;
    uint32_t reserved; // zero
    // The finest that work is cut: no dispatch is meant to take longer. 0: 250.
    double microseconds;
    // Generation: tokens that a row has room for, prompt and answer; later prompts that need no more are gone on from
    // without compiling. 0: what the first prompts need.
    int64_t length;
} hk_session_options;

typedef struct hk_session_info {
    uint32_t struct_size;
    int32_t state;     // HK_SESSION_*
    int32_t code;      // of HK_SESSION_FAILED; else HK_OK
    int32_t stopped;   // ended by hk_session_stop or the stop callback
    double progress;   // of preparing: 0 to 1
    int64_t step;      // steps done, tokens written in all rows, or passes done
    double longest;    // microseconds of the longest piece measured: a smaller budget cannot be kept
    hk_string message; // of HK_SESSION_FAILED; valid until the session is destroyed
} hk_session_info;

// Begin a session; what the options point to is copied. A training owns its run's folder until it ends; recipe and
// errors in it are found while it prepares. `session_options` may be null. Errors: no device; options that cannot be.
// [any-thread]
HK_EXPORT int32_t hk_session_train(hk_context context, const hk_train_options* options,
                                   const hk_session_options* session_options, hk_session* out, hk_error* error);
// Not with beams or the interpreter.
HK_EXPORT int32_t hk_session_generate(hk_context context, const hk_generate_options* options,
                                      const hk_session_options* session_options, hk_session* out, hk_error* error);

// A range of a VkBuffer. Of the host's: made with VK_BUFFER_USAGE_STORAGE_BUFFER_BIT and
// VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT, on memory allocated with VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT; shared by
// the family of Hekla's queue, or owned by it: another family's has to be released to it before a pass, and acquired
// from it after. It stays the host's, and must live until the session has ended.
typedef struct hk_buffer {
    uint32_t struct_size;
    uint32_t usage;             // VkBufferUsageFlags
    uint64_t buffer;            // VkBuffer
    uint64_t offset;            // address + offset: a multiple of 256
    uint64_t bytes;             // from there
    uint64_t address;           // vkGetBufferDeviceAddress of the whole buffer; 0: Hekla asks
    uint32_t queue_family;      // that owns it, where it is not shared
    int32_t concurrent;         // not 0: VK_SHARING_MODE_CONCURRENT
    int32_t memory_has_address; // not 0: VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT
    int32_t reserved;           // zero
} hk_buffer;

#define HK_TENSOR_FLOAT32 ((int32_t)0)
#define HK_TENSOR_INT32 ((int32_t)1)
#define HK_TENSOR_DIMS 8

// A tensor on the device, row-major.
typedef struct hk_tensor {
    uint32_t struct_size;
    int32_t kind; // HK_TENSOR_*
    uint32_t rank;
    uint32_t decoder_axes; // of an attention map, with a decoder_length: bit d is set where axis d counts its places
    int64_t dims[HK_TENSOR_DIMS];
    hk_buffer buffer; // for shaders of the host's: `address` + `offset` is where it begins
} hk_tensor;

// A field ("input_ids", int32 [rows, length]) or port that lies in a buffer of the host's.
typedef struct hk_binding {
    hk_string name;
    hk_buffer buffer;
} hk_binding;

// Passes of a model over rows of one length, whose outputs stay on the device.
typedef struct hk_forward_options {
    uint32_t struct_size;
    int32_t attention; // not 0: also the map of every attention, "attention.0", "attention.1", ...: [B, H, Tq, Tk]
    hk_string model;   // as hk_model_open opens it
    int64_t rows, length;
    const hk_string* ports; // places of the network: "hidden", "layer.3.hidden"; none only with attention or lens
    uint64_t port_count;
    const hk_binding* bindings; // the others lie in buffers of Hekla's
    uint64_t binding_count;
    void* user;
    // On the session's thread, when the device has finished a pass (the first is 1). May be null.
    void(HK_ABI* done)(void* user, uint64_t pass);
    // Not 0: also what the head would say if the network ended after so many layers, "lens.0" (of what goes into the
    // first) to "lens.L": what lies between the last layer and "logits", a norm perhaps, is done to "layer.N.hidden"
    // instead. Of a model whose network offers these ports.
    int32_t lens;
    int32_t reserved; // zero
    // Of an encoder-decoder: tokens of a row of its decoder ("decoder_input_ids"). 0: the decoder reads what the
    // encoder reads, one place later; also of a model without one.
    int64_t decoder_length;
} hk_forward_options;

// Is idle when it is prepared. Recurrent models have one map, of the weights that their network offers. [any-thread]
HK_EXPORT int32_t hk_session_forward(hk_context context, const hk_forward_options* options,
                                     const hk_session_options* session_options, hk_session* out, hk_error* error);
// Begins a pass over token ids, [rows, length], of which the first lengths[r] of row r count (null: all of each). `ids`
// null: what lies in the bound buffer of "input_ids", and of "attention_mask" if the model reads it. Errors: a pass
// runs; padding where the model reads no mask. [any-thread]
HK_EXPORT int32_t hk_session_pass(hk_session session, const int32_t* ids, const uint64_t* lengths, hk_error* error);
// The same of a session with a decoder_length: `decoder_ids`, [rows, decoder_length], begin with the token that the
// decoder begins with (hk_model_info.decoder_start) and go on with what is written; null: what lies in the bound buffer
// of "decoder_input_ids". [any-thread]
HK_EXPORT int32_t hk_session_pass_pair(hk_session session, const int32_t* ids, const uint64_t* lengths,
                                       const int32_t* decoder_ids, hk_error* error);
// Where a field or port lies, once the session is prepared. What is in it belongs to the host while the session is
// idle; a host that reads it on the device waits for the signal of the advance that the pass ended in, or, where it was
// recorded into a command buffer of its own, reads it later in the same queue. [any-thread]
HK_EXPORT int32_t hk_session_tensor(hk_session session, hk_string name, hk_tensor* out, hk_error* error);

// The next texts to go on from: as many as the first time. Where the session still writes, it stops that first.
// [any-thread]
HK_EXPORT int32_t hk_session_prompt(hk_session session, const hk_string* prompts, uint64_t count, hk_error* error);

// Sets a step scalar: a number that the graph of a plugin names with hk_graph_interface.step_scalar. It holds from the
// next step (training) or pass (forward) on, replaces a schedule of the recipe, and is kept in checkpoints. Errors: the
// session is still being prepared, has ended or generates text; a name that the graph does not have; a value that is
// not a finite float32 number. [any-thread]
HK_EXPORT int32_t hk_session_set_scalar(hk_session session, hk_string name, double value, hk_error* error);

// How it stands, when it does not prepare any more or so many nanoseconds are over. [any-thread]
HK_EXPORT int32_t hk_session_wait(hk_session session, uint64_t nanoseconds, hk_session_info* out, hk_error* error);

typedef struct hk_advance {
    uint32_t struct_size;
    uint32_t reserved;        // zero
    double microseconds;      // of the device's time, at most; one piece is taken however long it is. 0: nothing
    const hk_timeline* waits; // before the work
    uint64_t wait_count;
    const hk_timeline* signals; // behind it, even if there is none; not where `busy` or an error comes back
    uint64_t signal_count;
    // VkCommandBuffer, being recorded, outside of a render pass; null: Hekla submits to its queue by itself. The work
    // is recorded into it instead, with barriers before and behind it, and needs `lease`, a point that the host signals
    // when the command buffer has been executed, once: until then what it uses stays as it is, and another call records
    // into the same frame or a later one. No waits and signals with it. The host submits such command buffers in the
    // order of their calls, to one queue, and signals every lease before it destroys the session, which waits for them.
    void* command_buffer;
    hk_timeline lease;
} hk_advance;

typedef struct hk_advanced {
    uint32_t struct_size;
    int32_t state;   // HK_SESSION_*
    int32_t busy;    // not 0: nothing was begun, the pieces of earlier calls are still running
    int32_t more;    // not 0: there is work that did not fit
    uint64_t pieces; // begun now; 0: nothing was recorded or submitted (but signals)
    double expected; // microseconds that they should take
    double measured; // that the newest finished call's pieces took; 0: none yet, or the device has no timestamps
} hk_advanced;

// Gives the device work for so long, going on where the last call ended. Waits for nothing, allocates no device memory,
// compiles nothing, touches no file; work on the CPU between two pieces is done on the session's thread meanwhile.
// `out` may be null. Errors: of the device; a session that failed says why. [any-thread], one at a time a session
HK_EXPORT int32_t hk_session_advance(hk_session session, const hk_advance* advance, hk_advanced* out, hk_error* error);

// Of a context made with no_threads: does what the session's own thread would do, callbacks included, and returns when
// the session is done, failed, or destroyed; hk_session_wait says which. Waits inside for what the host does on other
// threads: hk_session_advance, hk_session_prompt. Errors: the session has a thread, or had it. [any-thread]
HK_EXPORT int32_t hk_session_run(hk_session session, hk_error* error);

typedef struct hk_pumped {
    uint32_t struct_size;
    int32_t sessions; // that have not ended, and that nobody runs with hk_session_run
    int32_t waiting;  // of them, for the host: hk_session_advance, hk_session_prompt, hk_session_pass
    int32_t reserved;
} hk_pumped;

// Of a context made with no_threads: does what the sessions' own threads would do, callbacks included, on this one.
// Each is run on until it waits, in turn, again and again until all wait for the host or so many nanoseconds are over
// (0: once); waits for the device itself take a millisecond at most. A session that does not wait is not interrupted:
// while one prepares, calls may take as long as a driver compiles. hk_session_stop is followed by calls of this until
// the session is done; functions that wait for a session (release_memory, restore_memory, destroy, hk_device_release)
// run it on by themselves. `out` may be null. Errors: the context has threads, or runs sessions as jobs; called from a
// callback of a session. [any-thread], one at a time
HK_EXPORT int32_t hk_context_pump(hk_context context, uint64_t nanoseconds, hk_pumped* out, hk_error* error);

// What a session was made with (hk_train_options, hk_generate_options, hk_forward_options), and where it is now, for a
// host that loads its own code anew. One that the session was made without is not called.
typedef struct hk_session_callbacks {
    uint32_t struct_size;
    uint32_t reserved; // zero
    void* user;
    void(HK_ABI* step)(void* user, const hk_train_step* step);
    void(HK_ABI* evaluation)(void* user, const hk_train_evaluation* evaluation);
    void(HK_ABI* message)(void* user, hk_string message);
    void(HK_ABI* text)(void* user, uint64_t row, hk_string text);
    void(HK_ABI* done)(void* user, uint64_t pass);
    int32_t(HK_ABI* stop)(void* user);
} hk_session_callbacks;

// Calls these from now on, null ones never, and returns when none of the old ones runs any more. Errors: called from a
// callback of the session. [any-thread]
HK_EXPORT int32_t hk_session_replace_callbacks(hk_session session, const hk_session_callbacks* callbacks,
                                               hk_error* error);

// Gives the device memory of a prepared session back, all of it (vkFreeMemory; room in the host's ranges): what is in
// it is kept on the host. Weights that other sessions read go with the last of them. In the middle of a step too: what
// the device was given ends first, leases included. Until it is restored hk_session_advance begins nothing. Errors:
// HK_CANCELLED where the session did not come to rest within so many nanoseconds (it works on the CPU, or waits for a
// lease), HK_OUT_OF_MEMORY on the host: nothing has changed then. One that was released already is no error.
// [any-thread], not from a callback of the session
HK_EXPORT int32_t hk_session_release_memory(hk_session session, uint64_t nanoseconds, hk_error* error);
// Takes memory again and goes on where it was, with the same bits; ports and fields that lie in Hekla's buffers have
// other addresses (hk_session_tensor). Waits until that is done. Errors: HK_OUT_OF_MEMORY: it stays released, ask
// again. One that has its memory is no error. [any-thread], not from a callback of the session
HK_EXPORT int32_t hk_session_restore_memory(hk_session session, hk_error* error);

// Ends a training after its step, with a checkpoint, and a generation after its token, as their stop callbacks do: the
// session is advanced until it is done. [any-thread]
HK_EXPORT int32_t hk_session_stop(hk_session session, hk_error* error);

// Ends it at once: waits for its thread and for what the device has begun; of a training what its last checkpoint does
// not hold is lost. From one of its own callbacks: it ends when that has returned. [any-thread]
HK_EXPORT void hk_session_destroy(hk_session session);

#ifdef __cplusplus
}
#endif

#endif
