// What a run says of itself: the progress line, the log (JSON lines), the loss curve (SVG).
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hekla::train {

// One applied (or skipped) update.
struct StepReport {
    int64_t step = 0; // updates applied or skipped so far, this one included
    int64_t max_steps = 0;
    double loss = 0.0;
    double loss_z = 0.0; // deviations from the mean of the last 128 losses
    double gradient_norm = 0.0;
    double learning_rate = 0.0;
    std::vector<std::pair<std::string, double>> scalars; // step scalars that a schedule or the host set, by name
    double seconds = 0.0;
    double tokens_per_second = 0.0;
    double share_of_peak = 0.0; // of the measured matmul speed; 0: not measured
    double remaining_seconds = 0.0;
    bool skipped = false; // loss or norm was not finite: the update was not applied
};

struct EvaluationReport {
    int64_t step = 0;
    double loss = 0.0;
    std::vector<std::pair<std::string, double>> scores; // "accuracy", ...
    bool best = false;
    double seconds = 0.0;
};

// "step 80/2000 | loss 2.57 (-0.3z) | norm 1.15 | lr 1.0e-03 | 41 ms | 18,700 tok/s | 12% of peak | ETA 1:20"
std::string progress_line(const StepReport& report);
std::string duration_text(double seconds); // "41 ms", "3.2 s", "1:20", "2:03:04"
std::string grouped(double number);        // 18700 -> "18,700"

// Mean and deviation of the last 128 losses, in the order in which they came: its state is those numbers.
class LossWindow {
public:
    double z(double loss) const; // 0 until there are 8
    void add(double loss);
    const std::deque<double>& losses() const { return losses_; }

private:
    std::deque<double> losses_;
};

// RUN/train_log.jsonl: one object a line, each line written at once. On resuming, what was logged after `step` is
// dropped, so the file reads as if the run had never stopped.
class RunLog {
public:
    static Result<RunLog> open(const std::filesystem::path& file, int64_t step);
    RunLog(RunLog&& other) noexcept;
    RunLog& operator=(RunLog&& other) noexcept;
    ~RunLog();

    Status step(const StepReport& report);
    Status evaluation(const EvaluationReport& report);
    // The curve of everything logged so far.
    Status write_curve(const std::filesystem::path& svg, const std::string& title) const;

private:
    RunLog() = default;
    Status line(const std::string& text);
    std::filesystem::path file_;
    int descriptor_ = -1;
    std::vector<std::pair<int64_t, double>> losses_, evaluations_;
};

struct Curve {
    std::string name;
    std::string colour;
    std::vector<std::pair<int64_t, double>> points;
};
// A self-contained SVG of curves over steps, or what else `axis` names, with axes, a grid and a legend.
std::string curve_svg(const std::string& title, const std::vector<Curve>& curves, const std::string& axis = "step");

} // namespace hekla::train
