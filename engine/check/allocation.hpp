// Memory that runs out on purpose: the operator new of the whole program, which counts on the threads that ask for it.
#pragma once

#include <cstdint>

namespace hekla::check {

// While this lives, on the thread that made it, the allocation after `after` counted ones throws std::bad_alloc; those
// behind it succeed again. One at a time a thread.
class FailingMemory {
public:
    explicit FailingMemory(int64_t after);
    ~FailingMemory();
    FailingMemory(const FailingMemory&) = delete;
    FailingMemory& operator=(const FailingMemory&) = delete;
    bool failed() const;            // it came to that
    static void count(bool counts); // whether what this thread allocates from now on counts; at first nothing does
};

} // namespace hekla::check
