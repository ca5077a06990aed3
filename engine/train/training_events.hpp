// Callbacks through which a training reports to its caller and can be stopped.
#pragma once

#include "base/stop_poll.hpp"
#include "train/report/step_record.hpp"
#include "train/step/step_scalars.hpp"

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace hekla::train {

// Called on the thread that prepares and runs the training. Any can be empty.
struct TrainerEvents {
    std::function<void(const StepRecord&)> step;
    std::function<void(const EvaluationRecord&)> evaluation;
    std::function<void(const std::string&)> message; // one line about the current work
    // Called during preparation, after every step and while a batch is awaited. True ends the training: after the first
    // step with a resumable checkpoint, during preparation with Code::cancelled.
    StopPoll stop;
    // Called when the training has stopped and saved its state, and a plugin in this process has not returned; the text
    // names it. A program may exit here. If this returns, the training waits for the plugin.
    std::function<void(const std::string&)> abandoned;
    // Gets RoutingReport::json() after TrainingRun::evaluate(); null where nothing is routed.
    std::function<void(const nlohmann::ordered_json&)> routing;
    // Asked before every step: the step scalars that the host has set so far, which replace the schedules of the
    // recipe.
    std::function<StepScalars::Values()> scalars;
    bool own_threads = true; // false: no thread is started; the calling thread does everything
};

} // namespace hekla::train
