// What a host asked for, written down to be asked again: by `hekla replay-calls FILE`, on another machine, with nothing
// of the host's at hand.
#ifndef HEKLA_CAPTURE_H
#define HEKLA_CAPTURE_H

#include "hekla/hekla.h"

#ifdef __cplusplus
extern "C" {
#endif

// From now on the calls on this context and its sessions (hk_train, hk_evaluate, hk_predict, hk_generate, hk_embed,
// hk_plan, hk_session_*, hk_context_pump) go to this file, each as a line of JSON behind it: when it was made, what it
// was given, how it ended and how long it took; with the losses of trainings and the texts that were written. A file
// that is there is overwritten. An empty path ends it; so does a disk that is full (the log says so). Not in it: what
// buffers, semaphores and files of the host's hold, of which it says that they were given; callbacks. Errors: the file
// cannot be written. [any-thread]
HK_EXPORT int32_t hk_capture(hk_context context, hk_string path, hk_error* error);

#ifdef __cplusplus
}
#endif

#endif
