// Callbacks through which a training reports to its caller and can be stopped.
#pragma once

#include "base/status.hpp"
#include "hekla/hekla.h"
#include "train/step_scalars.hpp"

#include <functional>
#include <string>

namespace hekla::train {

// Called on the thread that prepares and runs the training. Any can be empty.
struct TrainerEvents {
    std::function<void(const hk_train_step&)> step;
    std::function<void(const hk_train_evaluation&)> evaluation;
    std::function<void(const std::string&)> message; // one line about the current work
    // Called during preparation, after every step and while a batch is awaited. True ends the training: after the first
    // step with a resumable checkpoint, during preparation with Code::cancelled.
    std::function<bool()> stop;
    // Called when the training has stopped and saved its state, but a plugin in this process has not returned; the text
    // names it. A program may exit here. If this returns, the training waits for the plugin.
    std::function<void(const std::string&)> abandoned;
    // Called before every step: returns the step scalars that the host has set so far, which replace the recipe's
    // schedules.
    std::function<StepScalars::Values()> scalars;
    bool own_threads = true; // false: no thread is started; the calling thread does everything

    // Returns Code::cancelled, with the current activity, if the caller asks to stop.
    Status check_stop(const char* doing) const {
        return stop && stop() ? Status(Code::cancelled, std::string("stopped while ") + doing) : Status();
    }
};

} // namespace hekla::train
