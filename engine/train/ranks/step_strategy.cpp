#include "train/ranks/step_strategy.hpp"

#include "train/ranks/island_steps.hpp"
#include "train/ranks/step_in_parts.hpp"

#include <fmt/format.h>

namespace hekla::train {
namespace {

// Whole steps on one device.
class SingleDevice final : public StepStrategy {
public:
    SingleDevice(const StepContext& context, StepRunnerOptions runner) : StepStrategy(context, std::move(runner)) {}

    Status begin(const std::vector<data::Batch>& micro, int64_t step, double learning_rate) override {
        return runner_.begin_update(micro, step, learning_rate);
    }
    Result<TakenStep> end(int64_t /*step*/) override { return runner_.end_update(); }
    Status synchronize(int64_t /*step*/) override { return {}; }
};

} // namespace

StepStrategy::StepStrategy(const StepContext& context, StepRunnerOptions runner)
    : context_(context), runner_(context.described, context.optimizers.first(), std::move(runner)) {}

Result<std::unique_ptr<StepStrategy>> StepStrategy::create(const Division& division, const StepContext& context,
                                                           StepRunnerOptions runner) {
    switch (division.kind()) {
    case Division::Kind::whole:
        return std::unique_ptr<StepStrategy>(std::make_unique<SingleDevice>(context, std::move(runner)));
    case Division::Kind::parts: return StepInParts::create(division, context, std::move(runner));
    case Division::Kind::islands: return IslandSteps::create(context, std::move(runner));
    }
    return internal_error("a division of an unknown kind");
}

Result<StepLoss> StepStrategy::gradients(const std::vector<data::Batch>& micro, int64_t step) {
    HK_TRY(runner_.begin_gradients(micro, data_step(step)));
    return runner_.end_gradients();
}

ShardedStep::MicroRange StepStrategy::micro() const {
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
