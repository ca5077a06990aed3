// Injects allocation failures: replaces operator new of the whole program and counts on threads that ask for it.
#pragma once

#include <cstdint>

namespace hekla::check {

// While this exists, the allocation after `after` counted ones of its thread throws std::bad_alloc; later ones succeed.
// At most one per thread.
class FailingMemory {
public:
    explicit FailingMemory(int64_t after);
    ~FailingMemory();
    FailingMemory(const FailingMemory&) = delete;
    FailingMemory& operator=(const FailingMemory&) = delete;
    bool failed() const;            // whether the allocation was reached
    static void count(bool counts); // whether allocations of this thread count from now on; they do not at first
};

} // namespace hekla::check
