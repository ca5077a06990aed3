// The reports of a training as structs of hekla.h.
#pragma once

#include "hekla/hekla.h"
#include "train/report/step_record.hpp"

#include <vector>

namespace hekla::api {

// A step. `record` must outlive this.
class StepReport {
public:
    explicit StepReport(const train::StepRecord& record);
    StepReport(const StepReport&) = delete;
    StepReport& operator=(const StepReport&) = delete;
    const hk_train_step* get() const { return &step_; }

private:
    std::vector<hk_score> losses_, metrics_, scalars_;
    std::vector<hk_tap> taps_;
    hk_train_step step_{};
};

// An evaluation. `record` must outlive this.
class EvaluationReport {
public:
    explicit EvaluationReport(const train::EvaluationRecord& record);
    EvaluationReport(const EvaluationReport&) = delete;
    EvaluationReport& operator=(const EvaluationReport&) = delete;
    const hk_train_evaluation* get() const { return &evaluation_; }

private:
    std::vector<hk_score> scores_;
    hk_train_evaluation evaluation_{};
};

} // namespace hekla::api
