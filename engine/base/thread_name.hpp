// What debuggers and profilers call a thread.
#pragma once

#include <pthread.h>

namespace hekla {

// At most 15 bytes.
inline void name_this_thread(const char* name) { pthread_setname_np(pthread_self(), name); }

} // namespace hekla
