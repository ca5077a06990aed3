// Steps of a training by islands (DiLoCo): each rank takes whole steps alone, and after distributed.inner_steps of them
// an outer step gives all the same parameters again.
#pragma once

#include "program/parameter_store.hpp"
#include "train/ranks/islands.hpp"
#include "train/ranks/step_strategy.hpp"

namespace hekla::train {

class IslandSteps final : public StepStrategy {
public:
    static Result<std::unique_ptr<StepStrategy>> create(const StepContext& context, StepRunnerOptions runner);

    Status begin(const std::vector<data::Batch>& micro, int64_t step, double learning_rate) override;
    Result<TakenStep> end(int64_t step) override;
    int64_t data_step(int64_t step) const override;
    int64_t steps_at_once(int64_t step) const override;
    bool may_stop(int64_t step) const override;
    Status synchronize(int64_t step) override;
    Result<std::vector<StateFile>> state_files() override;
    Status obey(const RankCommand& command) override;

private:
    IslandSteps(const StepContext& context, StepRunnerOptions runner);
    Status command_step(int64_t step) override;
    bool is_average_due(int64_t steps) const;
    bool has_moment(program::StoreArena arena) const { return context_.store.has(arena); }
    Result<ResourceArray<float>> read_moment(int32_t island, const program::ParameterEntry& entry,
                                             program::StoreArena arena);
    Status write_moment(int32_t island, const program::ParameterEntry& entry, program::StoreArena arena,
                        std::span<const float> values);
    Result<std::vector<std::byte>> read_states(int32_t island);
    Status write_states(int32_t island, std::span<const std::byte> states);

    Islands islands_;
    int64_t first_step_ = 0; // at which this process began to train
};

} // namespace hekla::train
