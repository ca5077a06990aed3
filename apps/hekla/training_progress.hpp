// How the command line shows a training: progress, messages and evaluations on standard error.
#pragma once

#include "command.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace hekla::app {

// The means of several steps: loss, losses, metrics, and speed. Skipped steps are left out.
class StepMeans {
public:
    void add(const hk_train_step& s);
    // Returns the progress line of the last step with these means in place of its own values, and begins again.
    std::string line(const hk_train_step& last);

private:
    static void add(std::vector<double>& sums, const hk_score* scores, uint64_t count);
    std::vector<hk_score> means(const std::vector<double>& sums, const hk_score* scores) const;
    int64_t count_ = 0;
    double loss_ = 0.0, seconds_ = 0.0, tokens_ = 0.0;
    std::vector<double> losses_, metrics_;
};

// A bar that redraws itself on a terminal, at most 20 times a second; elsewhere a line every train.logging_steps steps.
// Failed writes are ignored: a closed standard error does not end a training.
struct Progress {
    bool terminal = is_terminal();
    int64_t logging_steps = 1;
    StepMeans means;                                  // since the last line
    bool open = false;                                // the terminal shows a line without its end
    std::chrono::steady_clock::time_point drawn = {}; // when the bar was

    void step(const hk_train_step& s);
    void line(const std::string& text);
    static bool is_terminal(); // whether standard error is one
};

// Returns the options of hk_train() that show the training by `progress` and stop it at a signal. All arguments must
// outlive the result.
hk_train_options training_options(const std::string& recipe, const std::vector<hk_string>& overrides,
                                  Progress& progress);

// Trains. Returns kDone unless the training failed, which is reported; a training that a signal stopped is done, with
// result.stopped.
int train_once(hk_context context, const HostError& error, const hk_train_options& options, Progress& progress,
               hk_train_result& result);

} // namespace hekla::app
