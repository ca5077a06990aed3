// Moves bytes between the ranks of one training: threads of a process, processes, or machines. hk_train_options takes
// one communicator per rank. Hekla computes every sum itself, in an order that the recipe fixes; a communicator only
// moves bytes, so it cannot change a result.
//
//     hk_communicator ranks[2];
//     hk_communicators_create(2, ranks, error);       // two threads of this process
//     // in thread r, with a context of its own: options.communicator = &ranks[r]; hk_train(context, &options, ...);
//     hk_communicators_destroy(ranks, 2);             // after both threads have returned
//
// A host may fill hk_communicator itself, with sockets or a library of a cluster.
//
// Made by tools/generate_abi from engine/api/host_api.json. Edit that instead.
// clang-format off
#ifndef HEKLA_COMMUNICATOR_H
#define HEKLA_COMMUNICATOR_H

#include "hekla/plugin/abi.h"
#include "hekla/plugin/error.h"

#ifdef __cplusplus
extern "C" {
#endif

// What a rank exchanges with one rank (with itself too).
typedef struct hk_exchange_part {
    // Bytes for that rank. Null if send_bytes is 0.
    const void* send;
    // Takes the bytes of that rank. Null if receive_bytes is 0.
    void* receive;
    // Number of bytes at `send`; that rank receives as many.
    uint64_t send_bytes;
    // Number of bytes at `receive`; that rank sends as many.
    uint64_t receive_bytes;
} hk_exchange_part;

// One rank's end of a group. All functions are called on one thread, which is that of hk_train.
typedef struct hk_communicator {
    // sizeof(hk_communicator).
    uint32_t struct_size;
    // Number of this rank, from 0. Rank 0 writes the files of the run and reports to its host.
    int32_t rank;
    // Number of ranks.
    int32_t size;
    // Zero.
    int32_t reserved;
    // Passed to the functions.
    void* user;
    // Begins exchange `number` with all ranks: `parts` has one entry per rank. Every rank begins the same exchanges
    // in the same order, with sizes that match. `parts` is read during the call; the bytes that it points to stay as
    // they are until the exchange is done. Errors: a code of hekla/plugin/error.h, and a message in `why`, which
    // stays valid until the next call. Required.
    int32_t(HK_ABI* begin)(void* user, uint64_t number, const hk_exchange_part* parts, hk_string* why);
    // Sets `done` to 1 when exchange `number` is done; afterwards that number is not asked for again. Otherwise sets
    // `lost` to a rank that will not take part any more, or to -1; `why` is then the reason that this rank gave when
    // it ended, and empty if it disappeared. All ranks are told the same. Returns at once. Errors: as begin.
    // Required.
    int32_t(HK_ABI* test)(void* user, uint64_t number, int32_t* done, int32_t* lost, hk_string* why);
    // Tells the other ranks that this one ends, and why. No function is called afterwards. [once] Required.
    void(HK_ABI* fail)(void* user, hk_string why);
} hk_communicator;

// Fills in `count` communicators, for as many threads of this process. Errors: HK_INVALID_ARGUMENT if `count` is 0 or
// above 1024. [any-thread]
HK_EXPORT int32_t hk_communicators_create(uint32_t count, hk_communicator* communicators, hk_error* error);

// Frees what hk_communicators_create filled in, after no thread uses it any more. [any-thread]
HK_EXPORT void hk_communicators_destroy(hk_communicator* communicators, uint32_t count);

#ifdef __cplusplus
}
#endif

#endif
