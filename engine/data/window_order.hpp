// The order of training windows: a pure function of (seed, number of the example), so that a run's position in its data
// is one integer, and resuming calls the same function.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <string>

namespace hekla::data {

enum class Order : int32_t {
    random,     // windows drawn with replacement, as in nanoGPT
    shuffle,    // every window once per epoch, in a different order each epoch
    sequential, // every window once per epoch, from the start (evaluation)
};

struct WindowOrderOptions {
    Order order = Order::shuffle;
    uint64_t tokens = 0; // in the data
    uint64_t window = 0; // tokens of an example: the context, plus one if the next token is predicted
    uint64_t stride = 0; // tokens from one window to the next in shuffle and sequential; 0: window - 1, which
                         // predicts every token once if the window has one more token than the context
    uint64_t seed = 0;
    std::string name = "the data"; // for messages
};

// One window.
struct Position {
    uint64_t number = 0; // of the example since the start of training; with the seed, the key of its random numbers
    uint64_t epoch = 0;
    uint64_t begin = 0; // first token; begin + window <= tokens
    bool operator==(const Position&) const = default;
};

class WindowOrder {
public:
    // Errors: data shorter than one window (the message contains both lengths and what to change), a window of 0.
    static Result<WindowOrder> create(const WindowOrderOptions& options);

    Position at(uint64_t number) const;
    // Returns the number of windows per epoch; in random order the same as in shuffle.
    uint64_t examples_per_epoch() const { return windows_; }
    const WindowOrderOptions& options() const { return options_; }

    // Returns the number of the first example of a micro-step: every step uses micro_steps x batch_size examples, in
    // order.
    static uint64_t first_number(uint64_t step, uint64_t micro_step, uint64_t micro_steps, uint64_t batch_size) {
        return (step * micro_steps + micro_step) * batch_size;
    }

private:
    WindowOrderOptions options_;
    uint64_t windows_ = 0;
};

} // namespace hekla::data
