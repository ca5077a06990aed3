// Examples of tables and texts, as they are.
#pragma once

#include "train/run/example_origin.hpp"

namespace hekla::train {

class DataOrigin final : public ExampleOrigin {
public:
    std::optional<bool> disables_dropout(const std::vector<plugin::ColumnNeed>& needs, bool resumes) const override;
    Division::Used use(const Recipe&) const override { return {}; }
    Status choose_columns(const Recipe& recipe, const plugin::Registry& registry,
                          std::vector<plugin::ColumnNeed>& needs) const override;
    bool repeats_rows() const override { return true; }
    // Most data has a label in its first batch; data without any is read to its end.
    Status check_labels(const PreparedRun& run, const DescribedTraining& training) const override;
    Status estimate_evaluations(program::Estimator& estimator, const DescribedTraining& training,
                                const program::CompileOptions& options) const override;
    Result<Opened> open(const ValidationContext& context) const override;
};

} // namespace hekla::train
