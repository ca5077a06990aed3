/* What libhekla_sentencepiece exports: one function, hekla_sentencepiece_interface. Nothing allocated on one side is
   freed on the other: results are handed over through calls that borrow. Thread: any; a model is immutable. */
#ifndef HEKLA_SENTENCEPIECE_MODULE_H
#define HEKLA_SENTENCEPIECE_MODULE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEKLA_SENTENCEPIECE_VERSION 2u

typedef void (*HeklaSentencePieceBytes)(void* user, const char* bytes, size_t size);

typedef struct HeklaSentencePieceInterface {
    uint32_t struct_size;
    uint32_t version;
    /* A serialized model that was checked before (text/files/spiece_model.hpp). Null on failure, after message(). */
    void* (*open)(const char* model, size_t size, void* user, HeklaSentencePieceBytes message);
    void (*close)(void* model);
    /* Calls piece() for every piece of a UTF-8 text with the bytes of the text that it covers. Returns 1 on success. */
    int32_t (*encode)(const void* model, const char* text, size_t size, void* user,
                      void (*piece)(void* user, uint32_t id, uint32_t begin, uint32_t end),
                      HeklaSentencePieceBytes message);
    /* Trains with the library's own flags ("vocab_size", "model_type", ...). sentence() gives the next text, borrowed
       until it is called again, and returns 1; 0 at the end; -1 to end the training with a failure. It is called while
       the library reads; nothing ends the optimization that follows. Returns 1 when model() was called with the
       serialized model. */
    int32_t (*train)(const char* const* keys, const char* const* values, size_t count, void* user,
                     int32_t (*sentence)(void* user, const char** text, size_t* size), HeklaSentencePieceBytes model,
                     HeklaSentencePieceBytes message);
} HeklaSentencePieceInterface;

/* Null where this version is not offered. Static; never freed. */
typedef const HeklaSentencePieceInterface* (*HeklaSentencePieceEntry)(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
