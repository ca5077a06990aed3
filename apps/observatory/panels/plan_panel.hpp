// The memory and time that a training, a text or a pass would need: Hekla's plan for this device or another one.
#pragma once

#include "observatory.hpp"

#include <hekla/plan.h>

namespace observatory {

class PlanPanel final : public Panel {
public:
    PlanPanel(std::string recipe, std::string overrides)
        : recipe_(std::move(recipe)), overrides_(std::move(overrides)) {}
    const char* name() const override { return "Memory plan"; }
    const char* about() const override {
        return "Memory, time and most expensive operations of a training, a text or a pass";
    }
    void draw(Observatory& app) override;
    bool is_settled(Observatory&) override { return !is_working_; }
    std::string problem(Observatory&) override {
        const std::lock_guard guard(mutex_);
        return problem_;
    }
    void work_out(Observatory& app);

private:
    // A copy of a report, without the data that it points to.
    struct Plan {
        struct Node {
            std::string name;
            uint64_t dispatches;
            double microseconds;
        };
        hk_plan_report report{};
        std::vector<Node> nodes;
        std::string text;
    };
    void draw_choices(Observatory& app);
    void draw_plan(Observatory& app, const Plan& plan) const;

    std::string recipe_, overrides_;
    int mode_ = HK_PLAN_TRAIN, length_ = 128, rows_ = 1;
    std::size_t device_ = 0; // index of the device to plan for
    bool measures_ = false;
    std::atomic<bool> is_working_{false};
    std::mutex mutex_;
    Plan plan_;           // set by the other thread
    std::string problem_; // set by the other thread
};

} // namespace observatory
