// Hekla for host programs: train, evaluate and run models on any Vulkan device. Plain C; vulkan.h is not needed.
//
// Rules for all functions:
//  * Strings are UTF-8, pointer and size. They are borrowed: the caller's stay valid until the call returns.
//  * A function that can fail returns HK_OK or another code of hekla/plugin/error.h, and fills `error`, which may be
//    null. Outputs are not changed on error.
//  * Set struct_size of every struct to its sizeof, and all members that you do not use to zero. Arguments are
//    checked by the call that gets them; the message names the member, its value and what was expected.
//  * Nothing is printed, nothing exits or aborts, no signal handler or locale is changed, and no file is written
//    unless an option names it.
//  * Callbacks of a call run on the calling thread, during the call. They may use other contexts. A second call on
//    the same context is refused while one runs.
//  * Thread tags: [any-thread] functions may be called from any thread, several at once. "One call per context at a
//    time" means that another call on the same context returns HK_FAILED_PRECONDITION meanwhile.
//
// Version 0: this header may still change until 1.0.
//
// Made by tools/generate_abi from engine/api/host_api.json. Edit that instead.
// clang-format off
#ifndef HEKLA_HEKLA_H
#define HEKLA_HEKLA_H

#include "hekla/communicator.h"
#include "hekla/device.h"
#include "hekla/plugin/abi.h"
#include "hekla/plugin/error.h"

#ifdef __cplusplus
extern "C" {
#endif

// Creates an error object, owned by the caller. Returns null without memory. [any-thread]
HK_EXPORT hk_error* hk_error_create(void);

// Destroys an error object; null is allowed. [any-thread]
HK_EXPORT void hk_error_destroy(hk_error* error);

// Returns the code of the last failed call that was given `error`. [any-thread]
HK_EXPORT int32_t hk_error_code(const hk_error* error);

// Returns the message of the last failed call that was given `error`. Valid until `error` is used or destroyed.
// [any-thread]
HK_EXPORT hk_string hk_error_message(const hk_error* error);

// Returns the version of the library, "0.1.0". Static. [any-thread]
HK_EXPORT hk_string hk_version(void);

// Returns the folder of Hekla's own plugins, for hk_context_options.plugin_folders: hekla/plugins next to
// libhekla.so, or "" if that folder does not exist. Static. [any-thread]
HK_EXPORT hk_string hk_plugin_folder(void);

// Which device a context uses.
#define HK_DEVICE_OWN ((int32_t)0) // one that Hekla creates
#define HK_DEVICE_WRAPPED ((int32_t)1) // the host's: hk_context_options.vulkan
#define HK_DEVICE_NONE ((int32_t)2) // none: models are described and planned, and run by the interpreter (`reference`)
// An own device that the first call which needs it creates, after everything that can be checked without a device was
// checked. Until then hk_context_device is "". Errors of the device are that call's.
#define HK_DEVICE_ON_DEMAND ((int32_t)3)

// Where plugins describe their graphs. In a child process (hekla-describe), a plugin that crashes, hangs, throws or
// takes too much memory becomes an error that names it, and the context does not use it again.
#define HK_DESCRIBE_AUTOMATIC ((int32_t)0) // plugins of hk_plugin_folder() in this process, all others in a child
#define HK_DESCRIBE_CHILD ((int32_t)1) // all in a child process
#define HK_DESCRIBE_IN_PROCESS ((int32_t)2) // all in this process, for hosts that must not start processes

// A cache of compiled and measured data, kept by the host. An entry's name contains everything that the entry depends
// on (device, driver, version), and an entry contains its own checksum. So entries may be kept anywhere, copied to
// another machine, or shipped. The functions are called by any thread that calls Hekla and by session threads,
// several at once.
typedef struct hk_cache {
    // sizeof(hk_cache).
    uint32_t struct_size;
    // Zero.
    uint32_t reserved;
    // Passed to the functions. May be null.
    void* user;
    // Calls give(to, bytes, size) once, before it returns, if there is an entry with that name. Required.
    void(HK_ABI* load)(void* user, hk_string name, void* to,
                       void(HK_ABI* give)(void* to, const void* bytes, uint64_t size));
    // Stores an entry of `size` bytes, and replaces an older one. `bytes` is borrowed. Required.
    void(HK_ABI* store)(void* user, hk_string name, const void* bytes, uint64_t size);
} hk_cache;

// An allocator of memory on the host. The functions are called by any thread, those of drivers included, several at
// once, and also while locks of Hekla or of drivers are held: they must not call Hekla or Vulkan.
typedef struct hk_allocator {
    // sizeof(hk_allocator).
    uint32_t struct_size;
    // Zero.
    uint32_t reserved;
    // Passed to the functions. May be null.
    void* user;
    // Returns `bytes` bytes at a multiple of `alignment`, a power of two. Null: the allocation is refused, and the
    // call that needed it fails with HK_OUT_OF_MEMORY. Required.
    void*(HK_ABI* allocate)(void* user, uint64_t bytes, uint64_t alignment);
    // Frees memory of `allocate`, with the size and alignment that it was allocated with. Required.
    void(HK_ABI* release)(void* user, void* memory, uint64_t bytes, uint64_t alignment);
} hk_allocator;

// How a context is made. Contexts of one process do not affect each other.
typedef struct hk_context_options {
    // sizeof(hk_context_options).
    uint32_t struct_size;
    // Vulkan validation of HK_DEVICE_OWN: 0 off (default), 1 validation layer, 2 GPU-assisted.
    int32_t validation;
    // Device of HK_DEVICE_OWN: an index of `hekla doctor --list`, or a part of a name. "" (default): the best one.
    hk_string device;
    // Folders that are searched for plugins, in this order. Null (default): none, so that only exported models run.
    const hk_string* plugin_folders;
    // Number of plugin_folders.
    uint64_t plugin_folder_count;
    // Folder for compiled kernels and measurements. "" (default): nothing is written.
    hk_string cache_folder;
    // Passed to `log` and `job`. May be null.
    void* user;
    // Takes the engine's messages; severities are in hekla/plugin/log.h. Called by any thread that calls Hekla and by
    // session threads. Null (default): messages are dropped.
    void(HK_ABI* log)(void* user, int32_t severity, hk_string message);
    // Whether to measure, once per device, which kernels are fastest: 0 never (default), 1 on GPUs, 2 on CPUs too. A
    // training run keeps the choices that it began with.
    int32_t measure_kernels;
    // HK_DEVICE_*. Default HK_DEVICE_OWN.
    int32_t device_kind;
    // The host's device, for HK_DEVICE_WRAPPED; else null. Copied.
    const hk_vulkan_device* vulkan;
    // Path of hekla-describe. "" (default): next to this program, or ../libexec/ from there.
    hk_string describe_program;
    // Time limit of one answer of a plugin in a child process, in seconds; 0 means 60.
    double describe_seconds;
    // Address space of that child process, in bytes; 0 means 4 GiB, UINT64_MAX means no limit.
    uint64_t describe_memory;
    // HK_DESCRIBE_*. Default HK_DESCRIBE_AUTOMATIC.
    int32_t describe;
    // Nonzero: plugin callbacks of a running model (collate, decode) run in worker processes. A worker that dies is
    // named in the log and restarted, and its batch is repeated with the same bits. Default 0: in this process.
    int32_t isolate_plugins;
    // Zero.
    int32_t reserved;
    // A cache kept by the host, instead of cache_folder. Copied. May be null.
    const hk_cache* cache;
    // Limit of the device memory of the context and its sessions, in bytes; 0 means none. Above it calls fail with
    // HK_OUT_OF_MEMORY and name the size.
    uint64_t memory_cap;
    // The host's allocator. Copied; it must work until the context, its sessions and its device were destroyed. Null
    // (default): the memory of the process. Without a device, only plugins' manifests use it. Otherwise these use it:
    //  * Vulkan's allocations on the host (VkAllocationCallbacks of all objects), and the tables of the allocators of
    //    device memory and command pools (these two fall back to the process's memory where the host has none)
    //  * inputs on their way to the device, outputs and weights on their way back, and evicted device memory
    //  * texts, examples, batches, and the cached features of a frozen model
    //  * vocabularies and merges of tokenizers, plugins' manifests, and data about programs and recorded commands
    // These do not use it:
    //  * temporary data while something is read, described, compiled or trained (graphs, JSON, one example), small
    //    objects and the weights of the interpreter: operator new, which a program may replace
    //  * the SentencePiece library and allocations that drivers make on their own: malloc
    const hk_allocator* allocator;
    // Nonzero: Hekla starts no thread. A session runs only inside hk_session_run or hk_context_pump, and batches are
    // made when they are needed. Default 0: a session has a thread ("hekla session"), a training one more ("hekla
    // batches"), and tokenizing a corpus one per processor ("hekla tokens").
    int32_t no_threads;
    // Zero.
    int32_t reserved2;
    // Runs sessions on the host's threads. Hekla starts no thread; when a session has something to do it calls this
    // function, and the host calls run(data) once, soon, on any thread, after this function has returned. One job
    // runs until the session waits; it needs 8 MiB of stack. `user` is the one above. Called while no lock is held,
    // on threads that call functions of session.h and on threads of jobs. A job of a destroyed session does nothing.
    // Null (default): sessions have threads, or see no_threads.
    void(HK_ABI* job)(void* user, void(HK_ABI* run)(void* data), void* data);
    // Called on the thread that enters (entered is not 0) or leaves a function of a plugin in this process, so that a
    // program can name the plugin when it crashes. `library` is a path. May be null; must work until the context is
    // destroyed. [any-thread]
    void(HK_ABI* plugin_call)(void* user, hk_string plugin, hk_string library, hk_string function, int32_t entered);
} hk_context_options;

// Creates a context. Errors: a device that cannot be used; plugins that cannot be read. [any-thread]
HK_EXPORT int32_t hk_context_create(const hk_context_options* options, hk_context* out, hk_error* error);

// Destroys a context. A call that runs on another thread is told to stop, and is waited for. [any-thread], not from a
// callback of the context
HK_EXPORT void hk_context_destroy(hk_context context);

// The callbacks of a context, for a host that reloads its own code. Each member replaces the option of that name, and
// must be null exactly where the context was made with null.
typedef struct hk_context_callbacks {
    // sizeof(hk_context_callbacks).
    uint32_t struct_size;
    // Zero.
    uint32_t reserved;
    // Passed to `log` and `job`. May be null.
    void* user;
    // See hk_context_options.log.
    void(HK_ABI* log)(void* user, int32_t severity, hk_string message);
    // See hk_context_options.job.
    void(HK_ABI* job)(void* user, void(HK_ABI* run)(void* data), void* data);
    // See hk_context_options.cache. Copied.
    const hk_cache* cache;
    // See hk_context_options.allocator. Copied; it also frees what the old allocator allocated.
    const hk_allocator* allocator;
    // Passed to lock_queue and unlock_queue. May be null.
    void* queue_user;
    // See hk_vulkan_device.lock_queue.
    void(HK_ABI* lock_queue)(void* user);
    // See hk_vulkan_device.unlock_queue. May unlock a queue that the old lock_queue has locked.
    void(HK_ABI* unlock_queue)(void* user);
} hk_context_callbacks;

// Replaces the callbacks, and returns when no old one runs any more. Errors: a member is null and the context was
// made with it, or the other way round; called from a callback. Nothing is changed then. [any-thread], also during
// calls
HK_EXPORT int32_t hk_context_replace_callbacks(hk_context context, const hk_context_callbacks* callbacks,
                                               hk_error* error);

// Returns the name of the device, or "" without one. Valid as long as the context. [any-thread]
HK_EXPORT hk_string hk_context_device(hk_context context);

// A named number that measures how good a model is: "accuracy", "matthews", "loss".
typedef struct hk_score {
    // Name of the score. Valid during the callback.
    hk_string name;
    // Value of the score; its range depends on the name.
    double value;
} hk_score;

// What a step computed for a value that a plugin names with tap(). Mean, deviation, minimum and maximum are those of
// its finite elements; NaN where it has none.
typedef struct hk_tap {
    // sizeof(hk_tap).
    uint32_t struct_size;
    // Zero.
    uint32_t reserved;
    // Name of the tap. Valid during the callback.
    hk_string name;
    // Number of elements, of all micro-batches of the step.
    uint64_t elements;
    // Number of those that are NaN.
    uint64_t nans;
    // Number of those that are infinite.
    uint64_t infinities;
    // Mean of the finite elements.
    double mean;
    // Standard deviation of the finite elements.
    double deviation;
    // Smallest finite element.
    double minimum;
    // Largest finite element.
    double maximum;
    // Share of the elements that are zero, 0 to 1.
    double zeros;
} hk_tap;

// One step of a training, as it is logged. Its pointers are valid until the callback returns.
typedef struct hk_train_step {
    // sizeof(hk_train_step).
    uint32_t struct_size;
    // Nonzero: no parameter was updated. 1: the loss or the gradient was not finite; 2: no example of the step has a
    // label, and `loss` is NaN.
    int32_t skipped;
    // Number of this step; the first is 1.
    int64_t step;
    // Number of the last step of the run.
    int64_t max_steps;
    // Loss that is minimized: each loss of the objective times its weight, summed. Before the update.
    double loss;
    // Distance of `loss` from the mean of the last 128 losses, in standard deviations; 0 for the first 8.
    double loss_z;
    // L2 norm of the gradient of all parameters, before clipping.
    double gradient_norm;
    // Learning rate of this step, without the factors of parameter groups.
    double learning_rate;
    // Duration of the step, in seconds.
    double seconds;
    // Tokens of the step divided by `seconds`.
    double tokens_per_second;
    // Floating-point operations per second as a fraction of the device's measured peak, 0 to 1; 0 means not known.
    // The peak is that of float32, or of the matrix units if the run trains in 16 bits on them.
    double share_of_peak;
    // Estimated time until the last step, in seconds, without evaluations.
    double remaining_seconds;
    // Each loss of the objective before its weight; null where there is only one.
    const hk_score* losses;
    // Number of losses.
    uint64_t loss_count;
    // Metrics that the objective reports in training.
    const hk_score* metrics;
    // Number of metrics.
    uint64_t metric_count;
    // Values of the step scalars that a schedule or the host sets.
    const hk_score* scalars;
    // Number of scalars.
    uint64_t scalar_count;
    // Bytes that this rank has sent to other ranks for the step, and received from them; 0 for one rank.
    uint64_t exchanged_bytes;
    // Time in which this rank waited for others or for their bytes, in seconds.
    double exchange_seconds;
    // Taps that the recipe's tap.names selects.
    const hk_tap* taps;
    // Number of taps.
    uint64_t tap_count;
    // Passes over the training data so far: examples that were read divided by examples; 0 for objectives that learn
    // from rollouts.
    double epoch;
    // Device memory of the training's context, in bytes.
    uint64_t device_bytes;
    // Tokens that the objective predicts in the step, on all ranks; 0 means it predicts none.
    double label_tokens;
} hk_train_step;

// One evaluation during a training.
typedef struct hk_train_evaluation {
    // sizeof(hk_train_evaluation).
    uint32_t struct_size;
    // Nonzero: the best evaluation of the run so far.
    int32_t best;
    // Step after which the model was evaluated.
    int64_t step;
    // Loss on the validation data: each loss times its weight, summed.
    double loss;
    // Duration of the evaluation, in seconds.
    double seconds;
    // Scores of the objective, in addition to the loss; each loss of several is named "loss.NAME". Valid during the
    // callback.
    const hk_score* scores;
    // Number of scores.
    uint64_t score_count;
} hk_train_evaluation;

// What to train, and who hears about it.
typedef struct hk_train_options {
    // sizeof(hk_train_options).
    uint32_t struct_size;
    // Zero.
    uint32_t reserved;
    // Path of a TOML recipe, or of a run's folder, which has one. Required.
    hk_string recipe;
    // Keys of the recipe with other values: "train.max_steps=100". May be null.
    const hk_string* overrides;
    // Number of overrides.
    uint64_t override_count;
    // Passed to the callbacks. May be null.
    void* user;
    // Called after every step. `step` is valid during the callback. May be null.
    void(HK_ABI* step)(void* user, const hk_train_step* step);
    // Called after every evaluation. `evaluation` is valid during the callback. May be null.
    void(HK_ABI* evaluation)(void* user, const hk_train_evaluation* evaluation);
    // Takes one line about the run: what was loaded, saved, resumed. May be null.
    void(HK_ABI* message)(void* user, hk_string message);
    // Asked during preparation, after every step and while a batch is awaited. Nonzero ends the training: after the
    // first step with a checkpoint that can be resumed, before it as stopped after 0 steps. May be null.
    int32_t(HK_ABI* stop)(void* user);
    // Called when the training has stopped and saved its state while a plugin in this process does not return;
    // `plugin` names it. A program may exit here; if this returns, the call waits for the plugin. May be null.
    void(HK_ABI* abandoned)(void* user, hk_string plugin);
    // This rank's end of a training by several ranks: each calls hk_train, in a thread or process of its own, with a
    // context of its own and the same recipe. Rank 0 reports to `step`, `evaluation` and `message`, asks `stop`, and
    // is the only one that uses the output folder; the calls of the others return when it has ended. If a rank fails,
    // all calls return an error that names it. Not for sessions. Null (default): trains alone.
    const hk_communicator* communicator;
} hk_train_options;

// How a training ended.
typedef struct hk_train_result {
    // sizeof(hk_train_result).
    uint32_t struct_size;
    // Nonzero: ended by the stop callback.
    int32_t stopped;
    // Number of the last step that was done.
    int64_t steps;
    // Step of the best evaluation; 0 or less without one.
    int64_t best_step;
    // Value of the best evaluation: its loss, or the recipe's metric; NaN without one.
    double best_evaluation;
} hk_train_result;

// Trains until the recipe's last step, or until `stop` returns nonzero. Resumes where the output folder has a
// complete checkpoint. `result` may be null. [any-thread], one call per context at a time
HK_EXPORT int32_t hk_train(hk_context context, const hk_train_options* options, hk_train_result* result,
                           hk_error* error);

// What to evaluate, and who takes the results.
typedef struct hk_evaluate_options {
    // sizeof(hk_evaluate_options).
    uint32_t struct_size;
    // Nonzero: on the recipe's data.test. Default 0: on its validation data.
    int32_t test;
    // Path of a TOML recipe, whose run is evaluated, or of the run's folder. Required.
    hk_string recipe;
    // Keys of the recipe with other values: "data.test=other.tsv". May be null.
    const hk_string* overrides;
    // Number of overrides.
    uint64_t override_count;
    // Passed to the callbacks. May be null.
    void* user;
    // Takes lines for people: a table of the results. May be null.
    void(HK_ABI* message)(void* user, hk_string message);
    // Takes "loss" first, then the objective's scores. `score` is valid during the callback. May be null.
    void(HK_ABI* score)(void* user, const hk_score* score);
    // Takes the prediction of one example as a JSON object, in the order of the data. May be null.
    void(HK_ABI* prediction)(void* user, uint64_t example, hk_string json);
    // Trained adapters, as hk_generate_options.adapters, that are evaluated instead of the recipe's own: on the model
    // of model.from if the recipe has [adapter] or [adapters], and on what its run has trained otherwise. A head that
    // was trained with the only adapter is used. Null (default): none.
    const hk_string* adapters;
    // Number of adapters.
    uint64_t adapter_count;
    // Takes, once, how the recipe's [combine] weighs adapters, as a JSON object: {"sites": [{"site": "layer.0.attn",
    // "of": ["a", "b"], "decoder": false, "mean": [0.3, 0.7]}], "rows": [{"tokens": ["a ", "text"], "decoder_tokens":
    // [], "weights": [[[0.2, 0.8], [0.4, 0.6]]]}]}: at each site the mean over all tokens that are not padding; of
    // some rows the weights by site, token and adapter (one token where they are of whole rows). Not called where
    // nothing is weighed. Null (default): not computed.
    void(HK_ABI* routing)(void* user, hk_string json);
} hk_evaluate_options;

// Evaluates the newest checkpoint of the recipe's run on data with known answers. [any-thread], one call per context
// at a time
HK_EXPORT int32_t hk_evaluate(hk_context context, const hk_evaluate_options* options, hk_error* error);

// What to predict, and who takes the results: either texts, or a file of rows.
typedef struct hk_predict_options {
    // sizeof(hk_predict_options).
    uint32_t struct_size;
    // Nonzero: computed by the float64 interpreter on the CPU. Default 0: on the device.
    int32_t reference;
    // Folder of a run, of a checkpoint or of a Hugging Face model. Required.
    hk_string model;
    // Rows that are computed together; 0 means 8.
    int64_t batch;
    // Longest row, in tokens; longer rows are cut; 0 means the length that the model was trained with.
    int64_t length;
    // Texts to predict, instead of `file`. May be null.
    const hk_string* texts;
    // Second text of each row, for models that read two: text_count of them. Null (default): one text per row.
    const hk_string* second_texts;
    // Number of texts.
    uint64_t text_count;
    // Path of a file of rows, in a format of the recipe's [data], instead of `texts`. "" (default): texts.
    hk_string file;
    // Format of `file`: "csv", "tsv", "jsonl". "" (default): by the name of the file.
    hk_string format;
    // Which column of the file each column of the model is: "text=sentence". Null (default): columns of the same
    // name.
    const hk_string* columns;
    // Number of columns.
    uint64_t column_count;
    // Passed to `row`. May be null.
    void* user;
    // Takes the prediction of one row as a JSON object: {"label": 1, "label_name": "positive", "probabilities":
    // [...]}. Rows come in any order. Nonzero ends the call with HK_CANCELLED. Required.
    int32_t(HK_ABI* row)(void* user, uint64_t row, hk_string json);
    // Called now and then while `file` is read, and between batches; nonzero ends the call with HK_CANCELLED. May be
    // null.
    int32_t(HK_ABI* stop)(void* user);
    // Trained adapters on the model, as hk_generate_options.adapters; with only one from a run, its head, objective
    // and labels are used. Null (default): none.
    const hk_string* adapters;
    // Number of adapters.
    uint64_t adapter_count;
} hk_predict_options;

// Sets struct_size and the defaults: everything else zero. [any-thread]
HK_EXPORT void hk_predict_defaults(hk_predict_options* options);

// Predicts with a trained model. [any-thread], one call per context at a time
HK_EXPORT int32_t hk_predict(hk_context context, const hk_predict_options* options, hk_error* error);

// How likely a model finds a token.
typedef struct hk_token_score {
    // What the token adds to a text: possibly part of a character.
    hk_string text;
    // Natural logarithm of its probability.
    double log_probability;
    // Id of the token.
    int32_t id;
} hk_token_score;

// A token of a generation. Its pointers are valid until the callback returns.
typedef struct hk_generated_token {
    // sizeof(hk_generated_token).
    uint32_t struct_size;
    // Id of the token.
    int32_t id;
    // What it adds to a text: possibly part of a character.
    hk_string text;
    // Natural logarithm of its probability in the model's own distribution: before biases, penalties, temperature,
    // top_k, top_p and min_p. Forbidden tokens count.
    double log_probability;
    // The most likely tokens of that distribution, in descending order.
    const hk_token_score* likeliest;
    // Number of them: hk_generate_options.likeliest_tokens, at most the vocabulary.
    uint64_t likeliest_count;
} hk_generated_token;

// Settings of generation that a model's folder publishes (generation_config.json): bits of
// hk_generate_options.published.
#define HK_PUBLISHED_SAMPLING ((int32_t)1) // do_sample, instead of `greedy`
#define HK_PUBLISHED_TEMPERATURE ((int32_t)2) // temperature
#define HK_PUBLISHED_TOP_K ((int32_t)4) // top_k
#define HK_PUBLISHED_TOP_P ((int32_t)8) // top_p
#define HK_PUBLISHED_MIN_P ((int32_t)16) // min_p
#define HK_PUBLISHED_REPETITION_PENALTY ((int32_t)32) // repetition_penalty
#define HK_PUBLISHED_ALL ((int32_t)63) // all of these

// What to generate, how tokens are chosen, and who takes the text. hk_generate_defaults sets the defaults.
typedef struct hk_generate_options {
    // sizeof(hk_generate_options).
    uint32_t struct_size;
    // Nonzero: always the most likely token. Default 0: sampled.
    int32_t greedy;
    // Folder of a run, of a checkpoint or of a Hugging Face model, or a file of `hekla export`. Required.
    hk_string model;
    // Prompts, one text each; for an encoder-decoder, what its encoder reads. Null: see prompt_count.
    const hk_string* prompts;
    // Number of prompts; 0 means one row that begins with the tokenizer's first token (not for encoder-decoders).
    uint64_t prompt_count;
    // Most tokens to generate per row, 1 or more. Default 128.
    int64_t max_new_tokens;
    // Beams of beam search; 0 (default) or 1 means none.
    int64_t beams;
    // Samples from the k most likely tokens; 0 (default) means all.
    int64_t top_k;
    // Divides the logits before sampling, above 0: below 1 more likely tokens, above 1 more varied ones. Default 1.
    double temperature;
    // Samples from the most likely tokens whose probabilities add up to this, above 0 to 1. Default 1: all.
    double top_p;
    // Divides the logits of tokens that occurred before, above 0. Default 1: off.
    double repetition_penalty;
    // Length of n-grams that must not occur twice, in tokens; 0 (default) means off.
    int64_t no_repeat_ngram_size;
    // Seed of the sampling: the same seed gives the same text. Default 0.
    uint64_t seed;
    // Nonzero: computed by the float64 interpreter on the CPU. Default 0: on the device.
    int32_t reference;
    // Nonzero (default): a row that fills the model's context continues with the last half of it (not with beams). 0:
    // more tokens than the context holds are an error before anything is generated.
    int32_t slide_context;
    // Passed to the callbacks. May be null.
    void* user;
    // Takes text as it is generated; `row` counts prompts from 0. With beams, whole rows at the end. May be null.
    void(HK_ABI* text)(void* user, uint64_t row, hk_string text);
    // Called before each part of the prompts (up to some hundred tokens of a row), and then before tokens are chosen:
    // before every one that the host chooses (beams, `reference`, `token`, repetition_penalty, no_repeat_ngram_size,
    // a model with more than 128 ids that end a text, are suppressed or have a bias); otherwise before as many as the
    // device chooses at once, which take about 15 ms together, or before one that takes longer. Nonzero ends the call
    // with the text so far. May be null.
    int32_t(HK_ABI* stop)(void* user);
    // How weight matrices, and the keys and values of past tokens, are stored on the device: 0 float32 (default), 1
    // float16, 2 bfloat16 (half the memory).
    int32_t weights;
    // Nonzero: `text` gets each prompt first. Encoder-decoders ignore it, as they do not continue the prompt. Default
    // 0.
    int32_t echo_prompt;
    // Trained adapters on the model, "NAME=FOLDER" or "NAME=FOLDER:SCALE": the folders of runs, of PEFT or of
    // AdapterHub; SCALE multiplies what the adapter adds. Keys of a recipe's [combine] among them choose how they act
    // together: "combine.how=arrow(a, b)", "combine.top_k=1". Without, all add up. What was trained with the only
    // adapter, such as a head "lm", is used too; with several it is an error. Null (default): none but those of the
    // model's folder.
    const hk_string* adapters;
    // Number of adapters.
    uint64_t adapter_count;
    // The name of each prompt's adapter, "" for none: prompt_count of them. In a session they hold for all prompts.
    // Null (default): all adapters act on all prompts.
    const hk_string* prompt_adapters;
    // Slots for LoRA adapters, 1 or more, of which every prompt uses one or none, and which a session can fill and
    // choose while it generates (hk_session_adapter_put). `adapters` are in the first of them. 0 (default): none;
    // each of `adapters` has memory of its own. An exported file has the slots that it was exported with (`hekla
    // export --adapter-slots`): this, and the next two unless they are 0 and "", are the same.
    int32_t adapter_slots;
    // Rank of the slots: the largest that an adapter may have; 0 (default) means that of `adapters`, or 16 without
    // any.
    int32_t adapter_rank;
    // Modules that have slots: ends of their names with commas between them ("c_attn,c_proj"), or "all-linear": all
    // of the body. "" (default): those of `adapters`, or "all-linear" without any.
    hk_string adapter_targets;
    // Not "": each prompt is a JSON list of messages, [{"role": "user", "content": "Hello"}], which a chat template
    // writes as text, and the answer of the assistant ends at the end of its turn. "auto": the model's own template
    // (chat_template.jinja, or "chat_template" of tokenizer_config.json); otherwise a file with one, or chatml,
    // llama2, llama3, zephyr, mistral, gemma, phi3 or alpaca. "" (default): prompts are texts.
    hk_string chat_template;
    // The date that the template prints where it asks for one (Llama 3.2), "2026-01-31". "" (default): now.
    hk_string chat_date;
    // Samples from the tokens that are at least this times as likely as the most likely one, 0 to 1; 0 (default)
    // means all. Applied after temperature, top_k and top_p, in this order.
    double min_p;
    // Texts of which any ends a row's generated text, without being part of it. They are found across the borders of
    // tokens and inside them, and `text` gets nothing that may be the beginning of one. A special token
    // ("<|im_end|>") is one, too. Not with beams. Null (default): none.
    const hk_string* stop_texts;
    // Number of stop texts.
    uint64_t stop_text_count;
    // "TOKEN=NUMBER": the number is added to the token's logit, before everything else; -inf forbids the token. TOKEN
    // is an id, a text that is one token, or such a text as a JSON string ("\n", in its quotes). With beams, it is
    // added to the log probability. Null (default): none.
    const hk_string* logit_biases;
    // Number of biases; each is for another token.
    uint64_t logit_bias_count;
    // Number of most likely tokens that `token` gets with each token. Default 0.
    int32_t likeliest_tokens;
    // HK_PUBLISHED_* bits of the settings that are taken from the generation_config.json of the model's folder,
    // instead of the options of the same name; a setting that it does not have has transformers' default (greedy;
    // with do_sample top_k 50); 0 (default) means none. Where it does not sample, only the repetition penalty is
    // taken. What it has and Hekla does not is named in the log. The end tokens are always the folder's.
    int32_t published;
    // Takes each generated token with its probability, before `text` gets what it adds; end tokens and those of a
    // stop text, too. The host chooses the tokens then; they are the same. Not with beams. May be null.
    void(HK_ABI* token)(void* user, uint64_t row, const hk_generated_token* token);
} hk_generate_options;

// How a generation ended.
typedef struct hk_generate_result {
    // sizeof(hk_generate_result).
    uint32_t struct_size;
    // Nonzero: ended by the stop callback.
    int32_t stopped;
    // Tokens of all prompts.
    int64_t prompt_tokens;
    // Tokens that were generated, in all rows.
    int64_t new_tokens;
    // Time for the prompts, in seconds.
    double prompt_seconds;
    // Time for the new tokens, in seconds.
    double seconds;
    // Context of the model, in tokens, where the rows could become longer than it; else 0.
    int64_t context;
} hk_generate_result;

// Sets struct_size and the defaults: 128 new tokens, temperature 1, slide_context, everything else off. [any-thread]
HK_EXPORT void hk_generate_defaults(hk_generate_options* options);

// Generates text. `result` may be null. [any-thread], one call per context at a time
HK_EXPORT int32_t hk_generate(hk_context context, const hk_generate_options* options, hk_generate_result* result,
                              hk_error* error);

// How the tokens of a row become one vector.
#define HK_POOLING_NONE ((int32_t)0) // not: every token has its own
#define HK_POOLING_FIRST ((int32_t)1) // the vector of the first token ([CLS])
#define HK_POOLING_LAST ((int32_t)2) // the vector of the last token
#define HK_POOLING_MEAN ((int32_t)3) // the mean over all tokens
// as the model has it: the modules of a folder of sentence-transformers (modules.json: pooling, dense layers,
// normalization); of any other model, and of any other port than "hidden", the mean
#define HK_POOLING_MODEL ((int32_t)4)

// What to embed, and who takes the results: texts, rows of token ids (after the texts, where both are given), or one
// batch in a file.
typedef struct hk_embed_options {
    // sizeof(hk_embed_options).
    uint32_t struct_size;
    // Nonzero: computed by the float64 interpreter on the CPU. Default 0: on the device.
    int32_t reference;
    // Folder of a run, of a checkpoint or of a Hugging Face model, or a file of `hekla export`. Required.
    hk_string model;
    // Named output of the network: "hidden", "layer.3.hidden", "pooled". "" means "hidden".
    hk_string port;
    // HK_POOLING_*. Default HK_POOLING_MODEL.
    int32_t pooling;
    // Zero.
    int32_t reserved;
    // Rows that are computed together; 0 means 8.
    int64_t batch;
    // Texts to embed. May be null.
    const hk_string* texts;
    // Number of texts.
    uint64_t text_count;
    // Rows of token ids: row_lengths[i] of them in rows[i]. May be null.
    const int32_t* const* rows;
    // Tokens of each row, 1 or more. May be null where row_count is 0.
    const uint64_t* row_lengths;
    // Number of rows.
    uint64_t row_count;
    // Path of a .safetensors file whose tensors are the fields of one batch, instead of texts and rows. "" (default):
    // none.
    hk_string fields_file;
    // Passed to `row`. May be null.
    void* user;
    // Takes the values of one row, row-major, with `rank` dimensions: [D], [T, D] without pooling, or the port's own.
    // A port that does not depend on rows ("embedding.weight") comes once, whole. Rows of similar length come
    // together, so `row` is not in order. All pointers are valid during the callback. Nonzero ends the call with
    // HK_CANCELLED. Required.
    int32_t(HK_ABI* row)(void* user, uint64_t row, const float* values, const int64_t* dims, uint32_t rank);
    // Trained adapters on the model, as hk_generate_options.adapters. Null (default): none.
    const hk_string* adapters;
    // Number of adapters.
    uint64_t adapter_count;
    // Name of the text that a folder of sentence-transformers has before every text
    // (config_sentence_transformers.json: "query", "document", ...), with HK_POOLING_MODEL. "" (default): that of its
    // default_prompt_name, or none.
    hk_string prompt;
    // Nonzero: texts without the tokens that the tokenizer puts around them ([CLS], [SEP], a begin or end token).
    // Default 0: with them, as the model was trained.
    int32_t plain_tokens;
    // Zero.
    int32_t reserved2;
} hk_embed_options;

// Sets struct_size and the defaults: "hidden", pooled as the model has it, 8 rows at a time. [any-thread]
HK_EXPORT void hk_embed_defaults(hk_embed_options* options);

// Computes features of texts or rows. [any-thread], one call per context at a time
HK_EXPORT int32_t hk_embed(hk_context context, const hk_embed_options* options, hk_error* error);

#ifdef __cplusplus
}
#endif

#endif
