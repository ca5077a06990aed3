// Models as data: what a folder holds, its tokenizer and its parameters, and where the tensors of a session lie on the
// device, for a host that looks inside.
//
//     hk_model_open(context, path, &model, error);                  // reads no weight, uses no device
//     hk_model_encode(model, text, &ids, take, error);
//     ...
//     hk_session_parameter(session, name, HK_PARAMETER_GRADIENT, &tensor, error);
#ifndef HEKLA_MODEL_H
#define HEKLA_MODEL_H

#include "hekla/session.h"

#ifdef __cplusplus
extern "C" {
#endif

// A model's folder or file, described. Immutable: any thread may use it, several at once.
typedef struct hk_model {
    uint64_t id;
} hk_model;

// `path`: a run's folder, a checkpoint's, a Hugging Face model's, or a file that `hekla export` wrote, which needs no
// plugin: its graphs, kernels, tokenizer and weights are all there, for generation and features (not for hk_predict,
// hk_evaluate and hk_train). Errors: no model there; parts that no plugin of the context provides; a file that is
// damaged or of a newer version. Such a file holds code for the device: open those of your own app. A folder without a
// tokenizer is no error. [any-thread], one at a time a context
HK_EXPORT int32_t hk_model_open(hk_context context, hk_string path, hk_model* out, hk_error* error);
// [any-thread]
HK_EXPORT void hk_model_destroy(hk_model model);

typedef struct hk_model_info {
    uint32_t struct_size;
    int32_t encoder_decoder; // not 0: it reads one text and writes another
    hk_string architecture;  // id of the plugin's; these strings are valid until the model is destroyed
    hk_string head;          // "" for none
    hk_string folder;      // that holds the weights: of a run, its newest checkpoint's; of an exported model, its file
    int64_t parameters;    // tensors
    int64_t elements;      // of all of them
    int64_t vocabulary;    // tokens of its tokenizer; 0: it has none
    int32_t decoder_start; // id that the decoder of an encoder-decoder begins with; -1: config.json says none
    int32_t reserved;      // zero
} hk_model_info;

// [any-thread]
HK_EXPORT int32_t hk_model_describe(hk_model model, hk_model_info* out, hk_error* error);

// A tensor that is learnt. `name` is valid during the callback that is given it.
typedef struct hk_parameter {
    uint32_t struct_size;
    uint32_t rank;
    hk_string name; // "transformer.wte.weight"
    int64_t dims[HK_TENSOR_DIMS];
    int32_t learns;   // in a training, not 0: it has a gradient and is updated
    int32_t reserved; // zero
} hk_parameter;

// Every parameter, in the order in which the network asks for them. [any-thread]
HK_EXPORT int32_t hk_model_parameters(hk_model model, void* user,
                                      void(HK_ABI* give)(void* user, const hk_parameter* parameter), hk_error* error);

// The ids of a text's tokens, given once; "<|endoftext|>" and its like in it are characters, no special tokens. Errors:
// no tokenizer; a text that is not UTF-8, or has a character that the tokenizer has not. [any-thread]
HK_EXPORT int32_t hk_model_encode(hk_model model, hk_string text, void* user,
                                  void(HK_ABI* give)(void* user, const int32_t* ids, uint64_t count), hk_error* error);
// The ids that an encoder-decoder's encoder reads of a text, given once: what the model was trained to have before a
// text, its tokens (special ones in it too, as hk_generate reads it), and what stands around these. Errors: as above;
// an empty text; a model without an encoder, or one that lays texts out otherwise. [any-thread]
HK_EXPORT int32_t hk_model_encode_source(hk_model model, hk_string text, void* user,
                                         void(HK_ABI* give)(void* user, const int32_t* ids, uint64_t count),
                                         hk_error* error);
// The text of ids, given once. An id without a token, or half a character, is U+FFFD. Errors: no tokenizer.
// [any-thread]
HK_EXPORT int32_t hk_model_decode(hk_model model, const int32_t* ids, uint64_t count, void* user,
                                  void(HK_ABI* give)(void* user, hk_string text), hk_error* error);

// Every tensor that hk_session_tensor knows of a session of passes, once it is prepared: the fields that the model
// reads, the ports that were asked for, attention maps and lenses. [any-thread]
HK_EXPORT int32_t hk_session_tensors(hk_session session, void* user,
                                     void(HK_ABI* give)(void* user, hk_string name, const hk_tensor* tensor),
                                     hk_error* error);

#define HK_PARAMETER_VALUE ((int32_t)0)
#define HK_PARAMETER_GRADIENT ((int32_t)1)      // of a training
#define HK_PARAMETER_FIRST_MOMENT ((int32_t)2)  // Adam's, or what SGD keeps
#define HK_PARAMETER_SECOND_MOMENT ((int32_t)3) // Adam's

// Every parameter of a session of passes or a training, once it is prepared. [any-thread]
HK_EXPORT int32_t hk_session_parameters(hk_session session, void* user,
                                        void(HK_ABI* give)(void* user, const hk_parameter* parameter), hk_error* error);
// Where a parameter, or what HK_PARAMETER_* says of it, lies on the device: Hekla's own, to be read and not written. Of
// a session of passes it stays as it is until the session is destroyed. Of a training it changes with every advance,
// and is gone when the training ends; while its `step` callback runs, nothing changes it, it cannot end, and values and
// gradients are those of that step: a host that reads them on the device does so there, and waits for it. Errors: no
// such parameter; one that does not learn has no gradient; the session prepares, or has ended. [any-thread]
HK_EXPORT int32_t hk_session_parameter(hk_session session, hk_string name, int32_t what, hk_tensor* out,
                                       hk_error* error);

#ifdef __cplusplus
}
#endif

#endif
