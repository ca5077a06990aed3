#include "check/allocation.hpp"

#include <cstdlib>
#include <new>

namespace hekla::check {
namespace {

struct Countdown {
    int64_t left = -1; // -1: nothing fails
    bool counts = false, failed = false;
};
Countdown& countdown() noexcept {
    static thread_local Countdown of_this_thread;
    return of_this_thread;
}

bool has_run_out() noexcept {
    Countdown& c = countdown();
    if (!c.counts || c.left < 0 || c.left-- > 0) return false;
    c.failed = true;
    return true;
}

} // namespace

FailingMemory::FailingMemory(int64_t after) { countdown() = {after, countdown().counts, false}; }
FailingMemory::~FailingMemory() { countdown() = {}; }
bool FailingMemory::failed() const { return countdown().failed; }
void FailingMemory::count(bool counts) { countdown().counts = counts; }

} // namespace hekla::check

// A program has one operator new, and plugins that link the C++ library use it as well.
void* operator new(std::size_t size) {
    if (hekla::check::has_run_out()) throw std::bad_alloc();
    for (;;) {
        if (void* const memory = std::malloc(size > 0 ? size : 1); memory != nullptr) return memory;
        const std::new_handler handler = std::get_new_handler();
        if (handler == nullptr) throw std::bad_alloc();
        handler();
    }
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
