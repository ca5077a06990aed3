#include "train/ranks/step_strategy.hpp"

#include "train/ranks/rank_command.hpp"

#include "program/parameter_store.hpp"
#include "train/run/state_tensor.hpp"
#include "train/update/optimizers.hpp"
#include <fmt/format.h>

namespace hekla::train {
StepStrategy::StepStrategy(const StepContext& context, StepRunnerOptions runner)
    : context_(context), runner_(context.described, context.optimizers.first(), std::move(runner)) {}

Result<StepLoss> StepStrategy::gradients(const std::vector<data::Batch>& micro, int64_t step) {
    HK_TRY(runner_.begin_gradients(micro, data_step(step)));
    return runner_.end_gradients();
}

MicroRange StepStrategy::micro() const {
    return {0, static_cast<uint32_t>(context_.recipe.train.gradient_accumulation_steps)};
}

Result<ResourceArray<float>> StepStrategy::moment(const program::ParameterEntry& entry, program::StoreArena arena) {
    return context_.store.download(entry.name, arena);
}

Status StepStrategy::set_moment(const program::ParameterEntry& entry, program::StoreArena arena,
                                std::span<const float> values) {
    return context_.store.upload(entry.name, values, arena);
}

Status StepStrategy::obey(const RankCommand& command) {
    return internal_error(fmt::format("rank 0 sent the task {}", static_cast<int64_t>(command.task)));
}

} // namespace hekla::train
