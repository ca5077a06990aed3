// The reports of a training: progress line, log (JSON lines), curves (SVG).
#pragma once

#include "base/status.hpp"
#include "hekla/hekla.h"

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace hekla::train {

// The value of hk_train_step::skipped of a step whose batch has no label. 1: loss or gradient was not finite.
inline constexpr int32_t kNoLabel = 2;

// Returns "step 80/2000 | loss 2.5713 | norm 1.15 | lr 1.0e-03 | 41 ms | 18,700 tok/s | 12% of peak | ETA 1:20". If
// there are several losses, each follows the total in parentheses. Metrics follow the norm. columns: what does not fit
// is left out, the least important first.
std::string progress_line(const hk_train_step& step, std::size_t columns = std::string::npos);
std::string duration_text(double seconds); // "41 ms", "3.2 s", "1:20", "2:03:04"
std::string grouped(double number);        // 18700 -> "18,700"

// The log RUN/train_log.jsonl: an object per line, each written immediately. A resumed run drops what was logged after
// `step`, so the file looks as if the run had never stopped.
class RunLog {
public:
    static Result<RunLog> open(const std::filesystem::path& file, int64_t step);
    RunLog(RunLog&& other) noexcept;
    RunLog& operator=(RunLog&& other) noexcept;
    ~RunLog();

    Status step(const hk_train_step& report);
    Status evaluation(const hk_train_evaluation& report);
    // Writes the curves of everything logged so far: loss.svg and, if the objective has metrics, metrics.svg, or rl.svg
    // if they are those of rollouts.
    Status write_curves(const std::filesystem::path& folder, const std::string& title) const;

private:
    RunLog() = default;
    using Points = std::vector<std::pair<int64_t, double>>; // (step, value)
    Status line(const std::string& text);
    void note(const nlohmann::ordered_json& record, int64_t step);
    std::filesystem::path file_;
    int descriptor_ = -1;
    Points losses_, evaluations_;
    std::vector<std::pair<std::string, Points>> named_losses_, metrics_; // in the order of the log
};

struct Curve {
    std::string name;
    std::string color;
    std::vector<std::pair<int64_t, double>> points;
};
// Returns a self-contained SVG of curves over steps, or over the quantity `axis`, with axes, a grid and a legend.
std::string curve_svg(const std::string& title, const std::vector<Curve>& curves, const std::string& axis = "step");
// Returns a self-contained SVG with a panel for each curve, for quantities of different scales over steps.
std::string panels_svg(const std::string& title, const std::vector<Curve>& curves);

} // namespace hekla::train
