#include "train/ranks/choose_strategy.hpp"

#include "graph/shape.hpp"

#include "train/ranks/division.hpp"
#include "train/ranks/island_steps.hpp"
#include "train/ranks/step_in_parts.hpp"
#include "train/run/state_tensor.hpp"

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

Result<std::unique_ptr<StepStrategy>> strategy_of(const Division& division, const StepContext& context,
                                                  StepRunnerOptions runner) {
    switch (division.kind()) {
    case Division::Kind::whole:
        return std::unique_ptr<StepStrategy>(std::make_unique<SingleDevice>(context, std::move(runner)));
    case Division::Kind::parts: return StepInParts::create(division, context, std::move(runner));
    case Division::Kind::islands: return IslandSteps::create(context, std::move(runner));
    }
    return internal_error("a division of an unknown kind");
}

} // namespace hekla::train
