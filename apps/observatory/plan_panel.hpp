// What a training would take before anything is trained: Hekla's plan of a recipe.
#pragma once

#include "observatory.hpp"

namespace observatory {

class PlanPanel final : public Panel {
public:
    PlanPanel(std::string recipe, std::string overrides)
        : recipe_(std::move(recipe)), overrides_(std::move(overrides)) {}
    const char* name() const override { return "Memory plan"; }
    const char* about() const override { return "Memory, time and dearest operations of a training"; }
    void draw(Observatory& app) override;
    bool is_settled(Observatory&) override { return !is_working_; }
    std::string problem(Observatory&) override {
        const std::lock_guard guard(mutex_);
        return problem_;
    }
    void work_out(Observatory& app);

private:
    std::string recipe_, overrides_;
    std::atomic<bool> is_working_{false};
    std::mutex mutex_;
    std::string plan_, problem_; // from the other thread
};

} // namespace observatory
