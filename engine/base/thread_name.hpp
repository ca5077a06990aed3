// Names of threads, as debuggers and profilers show them.
#pragma once

#include <pthread.h>

namespace hekla {

// Names the calling thread; at most 15 bytes.
inline void name_this_thread(const char* name) { pthread_setname_np(pthread_self(), name); }

} // namespace hekla
