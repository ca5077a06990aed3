// Steps whose parts are computed by several ranks, or one after the other on one.
#pragma once

#include "train/ranks/step_strategy.hpp"

namespace hekla::train {

class StepInParts final : public StepStrategy {
public:
    static Result<std::unique_ptr<StepStrategy>> create(const Division& division, const StepContext& context,
                                                        StepRunnerOptions runner);

    Status announce(int64_t step) override;
    Status begin(const std::vector<data::Batch>& micro, int64_t step, double learning_rate) override;
    Result<TakenStep> end(int64_t step) override;
    ShardedStep::MicroRange micro() const override { return step_->micro(); }
    Status synchronize(int64_t step) override;
    Result<bool> balance() override;
    bool divides_evaluations() const override { return context_.ranks.size() > 1; }
    Status with_parameters_of_rank_0(const std::function<Status()>& use) override;
    Result<ResourceArray<float>> moment(const program::ParameterEntry& entry, program::StoreArena arena) override;
    Status set_moment(const program::ParameterEntry& entry, program::StoreArena arena,
                      std::span<const float> values) override;
    Status obey(const RankCommand& command) override;

private:
    StepInParts(const StepContext& context, const StepRunnerOptions& runner) : StepStrategy(context, runner) {}
    std::unique_ptr<ShardedStep> step_;
};

} // namespace hekla::train
