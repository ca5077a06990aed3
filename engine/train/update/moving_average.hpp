// An exponential moving average of a run's weights (Polyak and Juditsky 1992), on the device. With train.ema_decay it
// is evaluated and saved at the end instead of the weights.
#pragma once

#include "base/status.hpp"
#include "exchange/communicator.hpp"

#include <memory>
#include <string>
#include <vector>

namespace hekla::program {
class Estimator;
struct Lowering;
class ParameterStore;
class Program;
class Runtime;
} // namespace hekla::program

namespace hekla::train {

struct StateFile;

// An exponential moving average of a store's parameters. Thread: one at a time, that of the store.
class MovingAverage {
public:
    MovingAverage() = default; // of no parameter: no function does anything

    // Averages the parameters `names`; of several ranks, rank 0 does. decay: below 1, and 0 for no average; the first
    // updates have more weight, by (1 + n) / (10 + n). The store must outlive this.
    static Result<MovingAverage> create(program::Runtime& runtime, program::ParameterStore& store,
                                        std::vector<std::string> names, double decay,
                                        const exchange::Communicator& ranks);
    // Adds what one with this decay allocates on a device, for the parameters that a step updates.
    static Status estimate(program::Estimator& estimator, const program::Lowering& step, double decay);

    Status begin();                  // sets the average to the current weights
    Status update(uint32_t applied); // after `applied` updates of the weights
    Status rehearse();               // runs an update and drops its result
    Status swap();                   // exchanges weights and averages

    // Returns the averages, under the names of the parameters; a file without tensors if there are none. The store must
    // outlive the result.
    StateFile state() const;

private:
    program::ParameterStore* store_ = nullptr;
    std::unique_ptr<program::Program> program_;
    std::vector<std::string> names_;
    double decay_ = 0.0;
};

} // namespace hekla::train
