// The model writes, token by token, within the frames' budget.
#pragma once

#include "observatory.hpp"

#include <chrono>

namespace observatory {

class WritingPanel final : public Panel {
public:
    const char* name() const override { return "Write"; }
    const char* about() const override { return "The model continues a text"; }
    void change(Observatory& app, bool shown) override;
    void draw(Observatory& app) override;
    bool is_settled(Observatory& app) override;
    std::string problem(Observatory&) override { return problem_; }
    void write(Observatory& app);             // at the next change
    void write_when_open() { waits_ = true; } // as soon as there is a model

private:
    void begin(Observatory& app);
    hk::Generation session_;
    std::string prompt_ = "The", text_, problem_;
    int tokens_ = 160, top_k_ = 40, seed_ = 1;
    float temperature_ = 0.8F;
    uint64_t number_ = 0; // of the model that writes
    std::chrono::steady_clock::time_point began_{};
    int64_t steps_ = 0;
    double rate_ = 0; // tokens a second
    bool waits_ = false;
};

} // namespace observatory
