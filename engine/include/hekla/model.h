// Models as data: the tokenizer and parameters of a model's folder, and where the tensors of a session are on the
// device.
//
//     hk_model_open(context, path, &model, error);                  // reads no weight, uses no device
//     hk_model_encode(model, text, &ids, take, error);
//     ...
//     hk_session_parameter(session, name, HK_PARAMETER_GRADIENT, &tensor, error);
//
// Made by tools/generate_abi from engine/api/host_api.json. Edit that instead.
// clang-format off
#ifndef HEKLA_MODEL_H
#define HEKLA_MODEL_H

#include "hekla/session.h"

#ifdef __cplusplus
extern "C" {
#endif

// The description of a model's folder or file. Immutable: any thread may use it, several at once.
typedef struct hk_model {
    // Number of the object; 0 is null.
    uint64_t id;
} hk_model;

// Opens the folder of a run, of a checkpoint or of a Hugging Face model, or a file of `hekla export`. A file needs no
// plugin: it contains graphs, kernels, tokenizer and weights, for generation, features and passes (not for
// hk_predict, hk_evaluate and hk_train). It contains code for the device, so open only files that you trust. A folder
// without a tokenizer can be opened. Errors: there is no model; no plugin of the context provides a part; the file is
// damaged or newer than the library. [any-thread], one call per context at a time
HK_EXPORT int32_t hk_model_open(hk_context context, hk_string path, hk_model* out, hk_error* error);

// Destroys the description. [any-thread]
HK_EXPORT void hk_model_destroy(hk_model model);

// What a model is. Strings are valid until the model is destroyed.
typedef struct hk_model_info {
    // sizeof(hk_model_info).
    uint32_t struct_size;
    // Nonzero: it reads one text and writes another. 0: one stack.
    int32_t encoder_decoder;
    // Id of the architecture: "gpt2".
    hk_string architecture;
    // Id of the head: "lm". "" without one.
    hk_string head;
    // Folder of the weights (of a run, its newest checkpoint), or the exported file.
    hk_string folder;
    // Number of parameter tensors.
    int64_t parameters;
    // Number of elements of all parameter tensors.
    int64_t elements;
    // Number of tokens of the tokenizer; 0 without one.
    int64_t vocabulary;
    // Id of the decoder's first token, for encoder-decoders; -1: config.json does not name one.
    int32_t decoder_start;
    // Zero.
    int32_t reserved;
} hk_model_info;

// Describes a model. [any-thread]
HK_EXPORT int32_t hk_model_describe(hk_model model, hk_model_info* out, hk_error* error);

// A parameter tensor.
typedef struct hk_parameter {
    // sizeof(hk_parameter).
    uint32_t struct_size;
    // Number of dimensions, up to HK_TENSOR_DIMS.
    uint32_t rank;
    // Name in the model's files: "transformer.wte.weight". Valid during the callback.
    hk_string name;
    // Elements along each dimension; the last one is contiguous.
    int64_t dims[HK_TENSOR_DIMS];
    // Nonzero: the session trains it, so that it has a gradient. 0: it is constant, or the session does not train.
    int32_t learns;
    // Zero.
    int32_t reserved;
} hk_parameter;

// Calls `give` for every parameter, in the order in which the network asks for them. [any-thread]
HK_EXPORT int32_t hk_model_parameters(hk_model model, void* user,
                                      void(HK_ABI* give)(void* user, const hk_parameter* parameter), hk_error* error);

// Calls `give` once with the token ids of a text alone. Special tokens in the text ("<|endoftext|>") are read as
// characters, and none is put around it. Errors: no tokenizer; the text is not UTF-8, or has a character that the
// tokenizer does not have. [any-thread]
HK_EXPORT int32_t hk_model_encode(hk_model model, hk_string text, void* user,
                                  void(HK_ABI* give)(void* user, const int32_t* ids, uint64_t count), hk_error* error);

// Calls `give` once with the token ids that the model reads for a text, special tokens in it included. An
// encoder-decoder: the input of its encoder, with the prefix that the model was trained with and the tokens around
// the text. Other models: the text's tokens between those that the tokenizer puts around a text, as in hk_embed.
// Errors: those of hk_model_encode; an empty text; an encoder-decoder whose fields have another layout. [any-thread]
HK_EXPORT int32_t hk_model_encode_source(hk_model model, hk_string text, void* user,
                                         void(HK_ABI* give)(void* user, const int32_t* ids, uint64_t count),
                                         hk_error* error);

// Calls `give` once with the text of token ids. An id without a token and an incomplete character become U+FFFD.
// Errors: no tokenizer. [any-thread]
HK_EXPORT int32_t hk_model_decode(hk_model model, const int32_t* ids, uint64_t count, void* user,
                                  void(HK_ABI* give)(void* user, hk_string text), hk_error* error);

// Calls `give` for every tensor of a session for passes, once it has prepared: fields, ports, attention maps and
// logits of layers, as in hk_session_tensor. [any-thread]
HK_EXPORT int32_t hk_session_tensors(hk_session session, void* user,
                                     void(HK_ABI* give)(void* user, hk_string name, const hk_tensor* tensor),
                                     hk_error* error);

// The tensors of a parameter.
#define HK_PARAMETER_VALUE ((int32_t)0) // its values
#define HK_PARAMETER_GRADIENT ((int32_t)1) // its gradient, in a training
#define HK_PARAMETER_FIRST_MOMENT ((int32_t)2) // Adam's first moment, or SGD's momentum, in a training
#define HK_PARAMETER_SECOND_MOMENT ((int32_t)3) // Adam's second moment, in a training

// Calls `give` for every parameter of a training or of a session for passes, once it has prepared. [any-thread]
HK_EXPORT int32_t hk_session_parameters(hk_session session, void* user,
                                        void(HK_ABI* give)(void* user, const hk_parameter* parameter), hk_error* error);

// Describes where a tensor of a parameter (`what`: HK_PARAMETER_*) is on the device. It belongs to Hekla, and is for
// reading only. In a session for passes it does not change until the session is destroyed or its memory is released.
// In a training it changes with every advance, and does not exist after the training ended. While the training's
// `step` callback runs, it cannot end, and values and gradients are those of that step: a host that reads them on the
// device does so in the callback, and waits there. Errors: no such parameter; it has no gradient, because it is not
// trained; the session has not prepared, has ended, or its memory is released (hk_session_release_memory).
// [any-thread]
HK_EXPORT int32_t hk_session_parameter(hk_session session, hk_string name, int32_t what, hk_tensor* out,
                                       hk_error* error);

#ifdef __cplusplus
}
#endif

#endif
