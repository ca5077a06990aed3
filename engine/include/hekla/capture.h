// Captures: a file of all calls of a host, which `hekla replay-calls FILE` makes again, on any machine, without the
// host.
//
// Made by tools/generate_abi from engine/api/host_api.json. Edit that instead.
// clang-format off
#ifndef HEKLA_CAPTURE_H
#define HEKLA_CAPTURE_H

#include "hekla/hekla.h"

#ifdef __cplusplus
extern "C" {
#endif

// Captures the calls on this context and its sessions (hk_train, hk_evaluate, hk_predict, hk_generate, hk_embed,
// hk_plan, hk_session_*, hk_context_pump) in a file, one line of JSON each: time, arguments, result and duration, and
// in addition losses and generated text. An existing file is overwritten. An empty path ends the capture; a full disk
// does too, with a warning in the log. Contents of the host's buffers, semaphores and files are not captured, only
// that they were given; callbacks are not captured. Errors: the file cannot be written. [any-thread]
HK_EXPORT int32_t hk_capture(hk_context context, hk_string path, hk_error* error);

#ifdef __cplusplus
}
#endif

#endif
