// A coroutine with its own stack (ucontext): it runs until it pauses, and continues from there when it is resumed, on
// any thread. This way, waiting work needs no thread.
#pragma once

#include "base/status.hpp"

#include <functional>
#include <memory>

namespace hekla {

class Fiber {
public:
    // The stack has the size of a thread's. `body` must not throw. Errors: out of memory.
    static Result<std::unique_ptr<Fiber>> create(std::function<void()> body);
    ~Fiber(); // requires that it has ended, or was never resumed
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    // Runs until the next pause or the end. Thread: any, one at a time; not from inside.
    void resume();
    // Called from inside: returns to the caller of resume(). The caller must hold nothing that belongs to a thread: no
    // lock, no exception.
    void pause();
    bool ended() const;

private:
    struct State;
    explicit Fiber(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

} // namespace hekla
