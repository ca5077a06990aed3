// Examples that the model writes: those of an objective that learns from rollouts.
#pragma once

#include "train/run/example_origin.hpp"

namespace hekla::train {

class RolloutOrigin final : public ExampleOrigin {
public:
    std::optional<bool> disables_dropout(const std::vector<plugin::ColumnNeed>&, bool) const override { return true; }
    Division::Used use(const Recipe& recipe) const override;
    Status choose_columns(const Recipe& recipe, const plugin::Registry& registry,
                          std::vector<plugin::ColumnNeed>& needs) const override;
    Status describe(DescribedTraining& training) const override;
    void warn_of(const DescribedTraining& training, const graph::Graph& step) const override;
    bool repeats_rows() const override { return false; }
    void resolve_steps(PreparedRun& run, const DescribedTraining& training) const override;
    Status check_labels(const PreparedRun&, const DescribedTraining&) const override { return {}; }
    Result<uint64_t> estimate_examples(program::Estimator& estimator, const DescribedTraining& training) const override;
    Result<Opened> open(const ValidationContext& context) const override;
};

} // namespace hekla::train
