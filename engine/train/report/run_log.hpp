// The log of a training (JSON lines) and its curves (SVG).
#pragma once

#include "base/file_handle.hpp"
#include "base/status.hpp"
#include "train/report/step_record.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace hekla::train {

// The log RUN/train_log.jsonl: an object per line, each written immediately. A resumed run drops what was logged after
// `step`, so the file looks as if the run had never stopped.
class RunLog {
public:
    static Result<RunLog> open(const std::filesystem::path& file, int64_t step);

    Status step(const StepRecord& record);
    Status evaluation(const EvaluationRecord& record);
    // Writes the curves of everything logged so far: loss.svg and, if the objective has metrics, metrics.svg, or rl.svg
    // if they are those of rollouts.
    Status write_curves(const std::filesystem::path& folder, const std::string& title) const;

private:
    RunLog() = default;
    using Points = std::vector<std::pair<int64_t, double>>; // (step, value)
    Status line(const std::string& text);
    void note(const nlohmann::ordered_json& record, int64_t step);
    std::filesystem::path file_;
    FileHandle log_;
    Points losses_, evaluations_;
    std::vector<std::pair<std::string, Points>> named_losses_, metrics_; // in the order of the log
};

} // namespace hekla::train
