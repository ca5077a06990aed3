// A training that runs within the window's frames, and its metrics.
#pragma once

#include "models/curves.hpp"
#include "models/engine.hpp"
#include "models/model.hpp"
#include "views/histograms.hpp"

#include <atomic>
#include <chrono>
#include <memory>

namespace observatory {

// The histograms of one parameter of a training.
struct Spread {
    Parameter parameter;
    Histogram values, gradients; // gradients: only if parameter.learns
};

class Training {
public:
    // Returns immediately; errors in the recipe are found by the session. Throws a Failure.
    Training(Engine& engine, const std::string& recipe, const std::vector<std::string>& overrides);
    ~Training();
    Training(const Training&) = delete;
    Training& operator=(const Training&) = delete;

    hk_session_info info() const { return session_.session().wait(0); }
    void stop() const { session_.stop(); } // after the current step, with a checkpoint

    Curves curves() const;
    std::vector<std::string> messages() const;
    // Sets whether histograms are computed every few steps.
    void want_spreads(bool wanted) { wants_spreads_ = wanted; }
    std::pair<int64_t, std::vector<Spread>> spreads() const; // and their step; 0: none yet

private:
    void note(const hk_train_step& step);
    void note(const hk_train_evaluation& evaluation);
    void count(int64_t step);
    Engine& engine_;
    mutable std::mutex mutex_;
    Curves curves_;
    std::vector<std::string> messages_;
    std::vector<Spread> spreads_;
    int64_t spreads_at_ = 0;
    std::atomic<bool> wants_spreads_{false};
    std::atomic<uint64_t> id_{0};                     // the session's, once it is known
    std::chrono::steady_clock::time_point counted_{}; // used only by the session's thread
    std::unique_ptr<Histograms> histograms_;          // used only by the session's thread
    hk::Training session_;                            // destroyed before the data that its callbacks use
};

} // namespace observatory
