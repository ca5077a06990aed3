// The curves of a training that runs in this window, or in any process that writes a log.
#pragma once

#include "models/log_reader.hpp"
#include "observatory.hpp"
#include "panels/plot.hpp"

#include <chrono>

namespace observatory {

class TrainingPanel final : public Panel {
public:
    explicit TrainingPanel(std::string recipe, std::string overrides, const std::string& log);
    const char* name() const override { return "Training"; }
    const char* about() const override { return "Loss, gradient norm and learning rate, step by step"; }
    void draw(Observatory& app) override;
    bool is_settled(Observatory& app) override;
    std::string problem(Observatory& app) override;
    void start(Observatory& app); // starts what the command line requests

private:
    void draw_own(Observatory& app, Curves& curves);
    void draw_log(Observatory& app);
    void draw_numbers(Observatory& app, const Curves& curves) const;
    void draw_curves(Observatory& app, const Curves& curves);
    void follow(const std::string& path);
    std::string recipe_, overrides_, log_path_, log_problem_;
    std::optional<LogReader> log_;
    std::chrono::steady_clock::time_point read_{};
    bool shows_log_ = false;
    bool logarithmic_ = false;
    float smooth_ = 12.0F;
};

} // namespace observatory
