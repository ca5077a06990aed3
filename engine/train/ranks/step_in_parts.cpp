#include "train/ranks/step_in_parts.hpp"

#include "program/parameter_store.hpp"
#include "train/ranks/division.hpp"
#include "train/ranks/rank_command.hpp"
#include "train/run/state_tensor.hpp"
#include "train/update/optimizers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::train {

using Task = RankCommand::Task;

Result<std::unique_ptr<StepStrategy>> StepInParts::create(const Division& division, const StepContext& context,
                                                          StepRunnerOptions runner) {
    std::unique_ptr<StepInParts> parts(new StepInParts(context, runner));
    HK_ASSIGN(parts->step_,
              ShardedStep::create(context.described, context.runtime, context.store, context.optimizers.first(),
                                  context.ranks, std::move(runner), division.parts_of_step(context.recipe)));
    return std::unique_ptr<StepStrategy>(std::move(parts));
}

Status StepInParts::command_step(int64_t step) { return command(context_.ranks, {Task::steps, step}); }

Status StepInParts::begin(const std::vector<data::Batch>& micro, int64_t step, double learning_rate) {
    return step_->begin(micro, step, learning_rate);
}

Result<TakenStep> StepInParts::end(int64_t step) {
    HK_ASSIGN(TakenStep taken, step_->end());
    const int64_t every = context_.recipe.distributed.check_every;
    if (every > 0 && (step + 1) % every == 0) HK_TRY(step_->check_parameters());
    return taken;
}

Status StepInParts::synchronize(int64_t /*step*/) { return step_->synchronize(); }

Result<bool> StepInParts::balance() {
    if (context_.ranks.size() == 1 || context_.recipe.distributed.balance != "measured") return false;
    HK_TRY(command(context_.ranks, {Task::balance}));
    const std::vector<uint32_t> shares = step_->balance();
    if (shares.empty()) return false;
    std::vector<std::string> seconds;
    for (const double s : step_->seconds_per_part()) seconds.push_back(fmt::format("{:.3f}", s));
    context_.message(fmt::format("the ranks compute {} parts from now on: they took {} s for each",
                                 fmt::join(shares, ", "), fmt::join(seconds, ", ")));
    return true;
}

Status StepInParts::evaluate(int64_t step, bool averaged, const Evaluate& run) {
    exchange::Communicator& ranks = context_.ranks;
    if (ranks.size() == 1) return run(nullptr);
    if (ranks.rank() == 0) HK_TRY(command(ranks, {Task::evaluate, step}));
    return averaged ? step_->with_parameters_of_rank_0([&] { return run(&ranks); }) : run(&ranks);
}

Status StepInParts::rehearse(const Evaluate& run) { return run(context_.ranks.size() > 1 ? &context_.ranks : nullptr); }

Result<ResourceArray<float>> StepInParts::moment(const program::ParameterEntry& entry, program::StoreArena arena) {
    HK_TRY(command(context_.ranks, moment_command(Task::gather, context_.store, entry, arena)));
    return step_->gather(entry, arena);
}

Status StepInParts::set_moment(const program::ParameterEntry& entry, program::StoreArena arena,
                               std::span<const float> values) {
    HK_TRY(command(context_.ranks, moment_command(Task::scatter, context_.store, entry, arena)));
    return step_->scatter(entry, values, arena);
}

Status StepInParts::obey(const RankCommand& command) {
    const auto arena = static_cast<program::StoreArena>(command.arena);
    const auto entry = [&]() -> const program::ParameterEntry& {
        return context_.store.table()[static_cast<std::size_t>(command.entry)];
    };
    switch (command.task) {
    case Task::balance: step_->balance(); return {};
    case Task::gather: return step_->gather(entry(), arena).status();
    case Task::scatter: return step_->scatter(entry(), {}, arena);
    default: return StepStrategy::obey(command);
    }
}

} // namespace hekla::train
