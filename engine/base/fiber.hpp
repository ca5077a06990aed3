// A function that runs a stretch at a time: until it waits for something, and on from there when it is resumed, on
// whatever thread that is. So work that waits in its middle needs no thread of its own.
#pragma once

#include "base/status.hpp"

#include <functional>
#include <memory>

namespace hekla {

class Fiber {
public:
    // With a stack like a thread's. `body` must not throw. Errors: out of memory.
    static Result<std::unique_ptr<Fiber>> create(std::function<void()> body);
    ~Fiber(); // it has ended, or was never resumed
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    // Runs on until the next pause, or the end. Thread: any, one at a time; not from inside.
    void resume();
    // From inside: back to where it was resumed. Nothing that belongs to a thread may be held: no lock, no exception.
    void pause();
    bool ended() const;

private:
    struct State;
    explicit Fiber(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

} // namespace hekla
