// Hekla for host programs: train, evaluate and generate on any Vulkan device. Plain C; vulkan.h is not needed.
//
// Rules: strings are pointer and size in UTF-8, borrowed until the call returns. Every function that can fail returns a
// code of hekla/plugin/error.h and fills `error`, which may be null. Outputs are untouched on error. Nothing is
// printed, nothing exits or aborts, no signal handler or locale is changed, and no file is written that was not asked
// for. Callbacks run on the calling thread, during the call; they may use other contexts, not the one that calls them:
// a second call on a context while one runs is refused.
//
// Version 0: this header grows and may still change until 1.0.
#ifndef HEKLA_HEKLA_H
#define HEKLA_HEKLA_H

#include "hekla/device.h"
#include "hekla/plugin/abi.h"
#include "hekla/plugin/error.h"

#ifdef __cplusplus
extern "C" {
#endif

// Errors. Owned by the caller.
// [any-thread]
HK_EXPORT hk_error* hk_error_create(void);
HK_EXPORT void hk_error_destroy(hk_error* error);
HK_EXPORT int32_t hk_error_code(const hk_error* error);
HK_EXPORT hk_string hk_error_message(const hk_error* error); // valid until the error is used or destroyed

// "0.1.0". [any-thread]
HK_EXPORT hk_string hk_version(void);
// Where Hekla's own plugins lie, for hk_context_options.plugin_folders: hekla/plugins beside libhekla.so; "" where they
// do not. [any-thread]
HK_EXPORT hk_string hk_plugin_folder(void);

#define HK_DEVICE_OWN ((int32_t)0)
#define HK_DEVICE_WRAPPED ((int32_t)1) // hk_context_options.vulkan
#define HK_DEVICE_NONE ((int32_t)2)    // models are read and described, and run by the interpreter (`reference`) alone

// Where plugins describe their graphs. In a process of its own (hekla-describe, started by exec), a plugin that
// crashes, hangs, throws or takes too much memory is an error that names it, and is not used again by the context.
#define HK_DESCRIBE_AUTOMATIC ((int32_t)0)  // those of Hekla's own plugin folder in this process, all others in a child
#define HK_DESCRIBE_CHILD ((int32_t)1)      // all in a child
#define HK_DESCRIBE_IN_PROCESS ((int32_t)2) // all in this process: for hosts that may start none

// What was compiled and measured, by name: a name says all that an entry depends on (device, driver, version), and an
// entry says itself whether it is whole, so that a host may keep entries where it likes, give them to another machine,
// or ship them. Called by any thread that called Hekla or is a session's, several at once.
typedef struct hk_cache {
    uint32_t struct_size;
    uint32_t reserved; // zero
    void* user;
    // Calls give(to, bytes, size) once where there is such an entry, before it returns.
    void(HK_ABI* load)(void* user, hk_string name, void* to,
                       void(HK_ABI* give)(void* to, const void* bytes, uint64_t size));
    void(HK_ABI* store)(void* user, hk_string name, const void* bytes, uint64_t size); // instead of an older one
} hk_cache;

// Memory on the host. Called by any thread, Hekla's own and drivers' too, several at once, also under locks of Hekla's
// and of drivers: it calls nothing of theirs.
typedef struct hk_allocator {
    uint32_t struct_size;
    uint32_t reserved; // zero
    void* user;
    // alignment: a power of two. Null: there is none, and the call that needed it fails with HK_OUT_OF_MEMORY.
    void*(HK_ABI* allocate)(void* user, uint64_t bytes, uint64_t alignment);
    void(HK_ABI* release)(void* user, void* memory, uint64_t bytes, uint64_t alignment); // as they were asked for
} hk_allocator;

// Contexts in one process do not know of each other.
typedef struct hk_context_options {
    uint32_t struct_size;
    int32_t validation;              // 0 off, 1 validation layer, 2 GPU-assisted
    hk_string device;                // "" the best one; an index, or a part of its name
    const hk_string* plugin_folders; // searched in order; explicit folders only
    uint64_t plugin_folder_count;
    hk_string cache_folder; // compiled kernels and tuning; "": no file is written
    void* user;
    // Messages of the engine: severity as in plugin/log.h. May be null.
    void(HK_ABI* log)(void* user, int32_t severity, hk_string message);
    // Whether to measure, once, which kernels are fastest here, before a program is made: 0 never, 1 on devices that
    // are no CPU, 2 always. A run keeps the choices that it began with.
    int32_t measure_kernels;
    int32_t device_kind;            // HK_DEVICE_*
    const hk_vulkan_device* vulkan; // of HK_DEVICE_WRAPPED: copied; else null
    hk_string describe_program;     // hekla-describe; "": beside this program, or in libexec/ beside its folder
    double describe_seconds;        // for one answer of a plugin in a process of its own; 0: 60
    uint64_t describe_memory;       // bytes of address space for that process; 0: 4 GiB; UINT64_MAX: no limit
    int32_t describe;               // HK_DESCRIBE_*: where plugins describe
    // Not 0: what runs of plugins while a model is trained or used (collate, decode) does so in worker processes over
    // shared memory. One that dies is named in the log and begun again, and its batch is repeated: the same bits.
    int32_t isolate_plugins;
    int32_t reserved;      // zero
    const hk_cache* cache; // instead of cache_folder; copied; may be null
    // Bytes of device memory that everything of the context takes at most, sessions included: what needs more fails
    // with HK_OUT_OF_MEMORY and says how much. 0: no cap.
    uint64_t memory_cap;
    // Copied; must work until the context, its sessions and its device are gone. Through it go: Vulkan's own
    // allocations on the host (VkAllocationCallbacks of everything that is made), those of the allocator of device
    // memory and of command pools (from the process where the host has none: they cannot be refused), inputs on their
    // way to the device and outputs on their way back, weights on both ways, what a session's released memory held,
    // tables of texts and the examples made of them, batches, the cached features of a frozen body, the vocabularies
    // and merges of the tokenizers that calls and sessions work with, plugins' manifests, what programs know of their
    // dispatches, and records of recorded work. From operator new, which a program may replace as C++ has it: what is
    // there only while something is read, described, compiled or trained (graphs, JSON, tokenizers, one example), the
    // graph that a training counts by, small objects, weights of the interpreter. From malloc: what SentencePiece's
    // library keeps, and what drivers take without asking. Where there is no device plugins' manifests alone go through
    // it. Null: the process's own.
    const hk_allocator* allocator;
    // Not 0: no thread is begun. A session does nothing until the host runs it, all at once (hk_session_run) or from
    // wait to wait (hk_context_pump), and batches are made where they are needed instead of ahead. 0: a session has a
    // thread ("hekla session"), a training one more ("hekla batches"), tokenizing a corpus as many as the machine has
    // ("hekla tokens").
    int32_t no_threads;
    int32_t reserved2; // zero
    // Not null: no thread is begun either, but whenever a session has something to do this asks the host to call
    // run(data) on a thread of its own, soon, once, and not before this has returned: work until the session waits for
    // something (8 MiB of stack are its own). `user` is the one above. Called under no lock, on threads that call
    // functions of session.h, and on those of the jobs. A job that comes when its session is gone does nothing.
    void(HK_ABI* job)(void* user, void(HK_ABI* run)(void* data), void* data);
    // Called on the thread that enters (entered is not 0) or leaves a function of a plugin in this process, so that a
    // program can name the plugin when it crashes. `library` is a path. May be null; must work until the context is
    // gone. [any-thread]
    void(HK_ABI* plugin_call)(void* user, hk_string plugin, hk_string library, hk_string function, int32_t entered);
} hk_context_options;

// [any-thread]
HK_EXPORT int32_t hk_context_create(const hk_context_options* options, hk_context* out, hk_error* error);
// A call that runs on another thread is told to stop and ends first. [any-thread], not from a callback of the context
HK_EXPORT void hk_context_destroy(hk_context context);
// What a context was made with, and where it is now, for a host that loads its own code anew.
typedef struct hk_context_callbacks {
    uint32_t struct_size;
    uint32_t reserved; // zero
    void* user;        // of log and job
    void(HK_ABI* log)(void* user, int32_t severity, hk_string message);
    void(HK_ABI* job)(void* user, void(HK_ABI* run)(void* data), void* data);
    const hk_cache* cache;         // copied, as the next
    const hk_allocator* allocator; // takes back what the old one gave
    void* queue_user;              // of a wrapped device, as the next two
    void(HK_ABI* lock_queue)(void* user);
    void(HK_ABI* unlock_queue)(void* user);
} hk_context_callbacks;

// Calls these from now on, and returns when none of the old ones runs any more. A queue may have been locked by the old
// one and be unlocked by the new one. Errors: one is null that the context was made with, or is not null and it was
// made without (nothing has changed); called from a callback. [any-thread], beside calls on the context and sessions
HK_EXPORT int32_t hk_context_replace_callbacks(hk_context context, const hk_context_callbacks* callbacks,
                                               hk_error* error);

// The name of the device in use; "" where there is none. Valid as long as the context. [any-thread]
HK_EXPORT hk_string hk_context_device(hk_context context);

// A number with a name: "accuracy", "matthews", ...
typedef struct hk_score {
    hk_string name;
    double value;
} hk_score;

// A step of training. Its pointers are valid until the callback returns.
typedef struct hk_train_step {
    uint32_t struct_size;
    int32_t skipped;          // not 0: the loss or the gradient was not finite, and no parameter changed
    int64_t step;             // steps done, this one included
    int64_t max_steps;        // of the run
    double loss;              // what is minimized: each loss times its weight, summed
    double loss_z;            // standard deviations of `loss` from the mean of the last 128; 0 for the first 8
    double gradient_norm;     // of all parameters together, before clipping
    double learning_rate;     // of this step
    double seconds;           // that the step took
    double tokens_per_second; // that it read
    double share_of_peak;     // 0 to 1, of the speed of a large matrix product measured on this device; 0: not measured
    double remaining_seconds; // estimated, to the end of the run
    const hk_score* losses;   // each loss of the objective before its weight, where there are several
    uint64_t loss_count;
    const hk_score* metrics; // that the objective reports in training
    uint64_t metric_count;
} hk_train_step;

// An evaluation on the validation data during training. Its pointers are valid until the callback returns.
typedef struct hk_train_evaluation {
    uint32_t struct_size;
    int32_t best;           // not 0: the best of the run so far
    int64_t step;           // after which it was made
    double loss;            // each loss times its weight, summed
    double seconds;         // that it took
    const hk_score* scores; // besides the loss; each loss of several is named "loss.NAME"
    uint64_t score_count;
} hk_train_evaluation;

typedef struct hk_train_options {
    uint32_t struct_size;
    uint32_t reserved;          // zero
    hk_string recipe;           // path of a TOML file
    const hk_string* overrides; // eg: "train.max_steps=100"
    uint64_t override_count;
    void* user;
    // Each may be null.
    void(HK_ABI* step)(void* user, const hk_train_step* step);
    void(HK_ABI* evaluation)(void* user, const hk_train_evaluation* evaluation);
    void(HK_ABI* message)(void* user, hk_string message);
    // Asked during preparation, after every step and while a batch is awaited. Not 0 ends the training: after the first
    // step with a resumable checkpoint, during preparation with HK_CANCELLED.
    int32_t(HK_ABI* stop)(void* user);
    // Called when the training has stopped and saved its state while a plugin in this process does not return; the text
    // names it. A program may exit here. If this returns, the call waits for the plugin.
    void(HK_ABI* abandoned)(void* user, hk_string plugin);
} hk_train_options;

typedef struct hk_train_result {
    uint32_t struct_size;
    int32_t stopped;        // not 0: by the stop callback
    int64_t steps;          // done in all, earlier starts of the run included
    int64_t best_step;      // of the best evaluation; -1: never evaluated
    double best_evaluation; // NaN: never evaluated
} hk_train_result;

// Trains until the recipe's steps are done or stop() asks to end; resumes where the output folder has a complete
// checkpoint.
// [any-thread], one at a time a context
HK_EXPORT int32_t hk_train(hk_context context, const hk_train_options* options, hk_train_result* result,
                           hk_error* error);

typedef struct hk_evaluate_options {
    uint32_t struct_size;
    int32_t test;               // not 0: on the recipe's data.test instead of its validation data
    hk_string recipe;           // path of a TOML file
    const hk_string* overrides; // eg: "data.test=other.tsv"
    uint64_t override_count;
    void* user;
    // Each may be null.
    void(HK_ABI* message)(void* user, hk_string message);
    // "loss" first, then the objective's scores.
    void(HK_ABI* score)(void* user, const hk_score* score);
    // What the head says of one example, in the data's order: a JSON object with, of a table, its "place" in the files.
    void(HK_ABI* prediction)(void* user, uint64_t example, hk_string json);
} hk_evaluate_options;

// Scores on data whose answers are known, with the newest checkpoint of the recipe's run.
// [any-thread], one at a time a context
HK_EXPORT int32_t hk_evaluate(hk_context context, const hk_evaluate_options* options, hk_error* error);

// Examples to say something of: texts, or a file of rows.
typedef struct hk_predict_options {
    uint32_t struct_size;
    int32_t reference; // not 0: the float64 interpreter on the CPU instead of the device
    hk_string model;   // a run's folder, a checkpoint's, or a Hugging Face model's
    int64_t batch;     // rows at a time; 0: 8
    int64_t length;    // tokens of a row, at most; 0: as it was trained
    const hk_string* texts;
    const hk_string* second_texts; // for models that read two; as many as texts, or null
    uint64_t text_count;
    hk_string file;           // instead of texts: rows as a recipe's [data] has them
    hk_string format;         // of the file; "": by its name
    const hk_string* columns; // "text=sentence", "text_b=2": the model's column and the file's; none: by their names
    uint64_t column_count;
    void* user;
    // What the head says of one row: a JSON object; eg {"label": 1, "label_name": "positive", "probabilities": [...]}.
    // Rows come in no order. Not 0 stops with HK_CANCELLED.
    int32_t(HK_ABI* row)(void* user, uint64_t row, hk_string json);
} hk_predict_options;

// A struct with the defaults: 8 rows at a time.
HK_EXPORT void hk_predict_defaults(hk_predict_options* options);
// [any-thread], one at a time a context
HK_EXPORT int32_t hk_predict(hk_context context, const hk_predict_options* options, hk_error* error);

typedef struct hk_generate_options {
    uint32_t struct_size;
    int32_t greedy;           // not 0: the likeliest token each time; no sampling
    hk_string model;          // a run's folder, a checkpoint's, a Hugging Face model's, or the file of `hekla export`
    const hk_string* prompts; // of an encoder-decoder: what its encoder reads
    uint64_t prompt_count;    // 0: one row that begins with the tokenizer's first token (not of an encoder-decoder)
    int64_t max_new_tokens;
    int64_t beams; // 0 or 1: none
    int64_t top_k; // 0: all
    double temperature, top_p, repetition_penalty;
    int64_t no_repeat_ngram_size;
    uint64_t seed;
    int32_t reference; // not 0: the float64 interpreter on the CPU instead of the device
    // Not 0: a row that fills the model's context begins anew with the last half of it and goes on (not with beams).
    // 0: more tokens than the context holds are an error before anything is generated.
    int32_t slide_context;
    void* user;
    // Text as it comes; row counts prompts. May be null. Beams give whole rows at the end.
    void(HK_ABI* text)(void* user, uint64_t row, hk_string text);
    int32_t(HK_ABI* stop)(void* user); // asked before every token: not 0 ends with what there is. May be null
    int32_t weights; // how matrices are stored on the device: 0 float32, 1 float16, 2 bfloat16 (half the memory)
    // Not 0: `text` is given each prompt first. Not of an encoder-decoder, whose text is not a prompt's continuation.
    int32_t echo_prompt;
} hk_generate_options;

typedef struct hk_generate_result {
    uint32_t struct_size;
    int32_t stopped; // by the stop callback: the texts end where they were
    int64_t prompt_tokens, new_tokens;
    double prompt_seconds, seconds; // of the new tokens
    int64_t context;                // the model's, in tokens, where the rows could outgrow it; else 0
} hk_generate_result;

// A struct with the defaults: 128 new tokens, temperature 1, sliding over the context, everything else off.
HK_EXPORT void hk_generate_defaults(hk_generate_options* options);
// [any-thread], one at a time a context
HK_EXPORT int32_t hk_generate(hk_context context, const hk_generate_options* options, hk_generate_result* result,
                              hk_error* error);

#define HK_POOLING_NONE ((int32_t)0)  // every token
#define HK_POOLING_FIRST ((int32_t)1) // the first token of a row ([CLS])
#define HK_POOLING_LAST ((int32_t)2)
#define HK_POOLING_MEAN ((int32_t)3)

// Features of texts, of rows of token ids, or of a whole batch in a file; in this order, where several are given.
typedef struct hk_embed_options {
    uint32_t struct_size;
    int32_t reference; // not 0: the float64 interpreter on the CPU instead of the device
    hk_string model;   // a run's folder, a checkpoint's, a Hugging Face model's, or the file of `hekla export`
    hk_string port;    // a place of the network: "hidden", "layer.3.hidden", "pooled"; "": "hidden"
    int32_t pooling;   // HK_POOLING_*, over the tokens of a row
    int32_t reserved;  // zero
    int64_t batch;     // rows at a time; 0: 8
    const hk_string* texts;
    uint64_t text_count;
    const int32_t* const* rows; // ids, row_lengths[i] of them in rows[i]
    const uint64_t* row_lengths;
    uint64_t row_count;
    hk_string fields_file; // .safetensors whose tensors are the fields of one batch; not with texts or rows
    void* user;
    // Row-major values with their dimensions: [D], [T, D] without pooling, or the port's own; a port that does not
    // depend on rows ("embedding.weight") comes whole, once. Rows of like length come together: use `row`. Not 0 stops
    // with HK_CANCELLED.
    int32_t(HK_ABI* row)(void* user, uint64_t row, const float* values, const int64_t* dims, uint32_t rank);
} hk_embed_options;

// A struct with the defaults: "hidden", mean, 8 rows at a time.
HK_EXPORT void hk_embed_defaults(hk_embed_options* options);
// [any-thread], one at a time a context
HK_EXPORT int32_t hk_embed(hk_context context, const hk_embed_options* options, hk_error* error);

#ifdef __cplusplus
}
#endif

#endif
