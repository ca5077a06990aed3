// Text generation, token by token, within the budget of the frames.
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
    void write(Observatory& app);             // starts at the next change()
    void write_when_open() { waits_ = true; } // starts as soon as a model is open

private:
    void begin(Observatory& app);
    hk::Generation session_;
    std::string prompt_ = "The", text_, problem_;
    int tokens_ = 160, top_k_ = 40, seed_ = 1;
    float temperature_ = 0.8F;
    uint64_t number_ = 0; // the number of the model that generates
    std::chrono::steady_clock::time_point began_{};
    int64_t steps_ = 0;
    double rate_ = 0; // tokens per second
    bool waits_ = false;
};

} // namespace observatory
