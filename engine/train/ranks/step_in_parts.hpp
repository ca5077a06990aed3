// Steps whose parts are computed by several ranks, or one after the other on one.
#pragma once

#include "train/ranks/sharded_step.hpp"
#include "train/ranks/step_strategy.hpp"

namespace hekla::train {

class Division;

class StepInParts final : public StepStrategy {
public:
    static Result<std::unique_ptr<StepStrategy>> create(const Division& division, const StepContext& context,
                                                        StepRunnerOptions runner);

    Status begin(const std::vector<data::Batch>& micro, int64_t step, double learning_rate) override;
    Result<TakenStep> end(int64_t step) override;
    MicroRange micro() const override { return step_->micro(); }
    Status synchronize(int64_t step) override;
    Result<bool> balance() override;
    Status evaluate(int64_t step, bool averaged, const Evaluate& run) override;
    Status rehearse(const Evaluate& run) override;
    Result<ResourceArray<float>> moment(const program::ParameterEntry& entry, program::StoreArena arena) override;
    Status set_moment(const program::ParameterEntry& entry, program::StoreArena arena,
                      std::span<const float> values) override;
    Status obey(const RankCommand& command) override;

private:
    StepInParts(const StepContext& context, const StepRunnerOptions& runner) : StepStrategy(context, runner) {}
    Status command_step(int64_t step) override;
    std::unique_ptr<ShardedStep> step_;
};

} // namespace hekla::train
