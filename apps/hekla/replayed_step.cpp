#include "replayed_step.hpp"

#include "model/checkpoint.hpp"

#include "program/parameter_store.hpp"
#include "train/run/run_progress.hpp"
#include "train/training_run.hpp"
#include "train/update/schedule.hpp"

#include <fmt/format.h>

namespace hekla::app {
namespace {

// Loads the newest complete checkpoint before `step`, or the state before the first step; returns its step.
Result<int64_t> load_before(train::TrainingRun& run, int64_t step) {
    HK_ASSIGN(const std::vector<int64_t> all, model::list_checkpoints(run.folder()));
    for (auto it = all.rbegin(); it != all.rend(); ++it) {
        if (*it >= step) continue;
        const Result<model::Checkpoint> checkpoint =
            model::verify_checkpoint(model::checkpoint_path(run.folder(), *it));
        if (!checkpoint.ok()) continue;
        HK_TRY(run.load_checkpoint(checkpoint.value()));
        return *it;
    }
    HK_TRY(run.restart());
    return int64_t{0};
}

} // namespace

Result<ReplayedStep> replay_step(train::TrainingRun& run, int64_t step) {
    const train::TrainSection& settings = run.recipe().train;
    if (step < 1 || step > settings.max_steps)
        return invalid_argument(fmt::format("step {} is outside 1 to {}", step, settings.max_steps));
    ReplayedStep result;
    HK_ASSIGN(result.from_checkpoint, load_before(run, step));
    std::unique_ptr<data::Batcher> batcher;
    for (;;) {
        if (batcher == nullptr || run.rollouts_due()) {
            batcher.reset();
            HK_TRY(run.roll_out());
            HK_ASSIGN(batcher, run.batches(run.step()));
        }
        HK_ASSIGN(std::optional<std::vector<data::Batch>> micro, run.next_micro_batches(*batcher));
        if (!micro) return Status(Code::cancelled, "stopped while waiting for a batch");
        if (run.step() + 1 == step) {
            HK_ASSIGN(result.loss, run.gradients(*micro, run.step()));
            result.batches = std::move(*micro);
            break;
        }
        HK_TRY(run.begin_step(*micro, run.step(), train::learning_rate(settings, run.step())));
        HK_TRY(run.end_step().status());
        ++run.progress().step;
    }
    HK_ASSIGN(const double scale, run.loss_scale());
    for (const std::string& name : run.gradient_names()) {
        HK_ASSIGN(ResourceArray<float> values, run.store().download(name, program::StoreArena::gradients));
        for (float& value : values) value /= static_cast<float>(scale);
        result.gradients.emplace_back(name, std::move(values));
    }
    return result;
}

} // namespace hekla::app
