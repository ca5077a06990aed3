#include "train/ranks/island_steps.hpp"

#include "program/parameter_store.hpp"
#include "train/ranks/rank_command.hpp"
#include "train/run/state_tensor.hpp"
#include "train/update/optimizer.hpp"
#include "train/update/optimizers.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::train {
namespace {

using Task = RankCommand::Task;

// Sends bytes of an island to rank 0, or from it. Each has as many.
Status move_bytes(exchange::Communicator& ranks, int32_t island, bool to_first, std::span<std::byte> bytes) {
    std::vector<hk_exchange_part> parts(static_cast<std::size_t>(ranks.size()));
    const bool sends = to_first ? ranks.rank() == island : ranks.rank() == 0;
    const bool receives = to_first ? ranks.rank() == 0 : ranks.rank() == island;
    const auto other = static_cast<std::size_t>(ranks.rank() == 0 ? island : 0);
    if (sends) parts[other] = {bytes.data(), nullptr, bytes.size(), 0};
    if (receives) parts[other] = {nullptr, bytes.data(), 0, bytes.size()};
    return ranks.exchange(parts);
}

Islands::Options options_of(const DistributedSection& d) {
    return {d.outer_learning_rate, d.outer_momentum, d.outer_exchange == "f16", static_cast<uint64_t>(d.bucket) << 20};
}

} // namespace

IslandSteps::IslandSteps(const StepContext& context, StepRunnerOptions runner)
    : StepStrategy(context, std::move(runner)),
      islands_(context.store, context.ranks, options_of(context.recipe.distributed)) {}

Result<std::unique_ptr<StepStrategy>> IslandSteps::create(const StepContext& context, StepRunnerOptions runner) {
    return std::unique_ptr<StepStrategy>(new IslandSteps(context, std::move(runner)));
}

bool IslandSteps::is_average_due(int64_t steps) const {
    return steps % context_.recipe.distributed.inner_steps == 0 || steps == context_.recipe.train.max_steps;
}

int64_t IslandSteps::data_step(int64_t step) const { return step * context_.ranks.size() + context_.ranks.rank(); }

int64_t IslandSteps::steps_at_once(int64_t step) const {
    int64_t steps = 1;
    while (!is_average_due(step + steps)) ++steps;
    return steps;
}

bool IslandSteps::may_stop(int64_t step) const { return step % context_.recipe.distributed.inner_steps == 0; }

Status IslandSteps::command_step(int64_t step) {
    const bool begins = step % context_.recipe.distributed.inner_steps == 0 || step == first_step_;
    return begins ? command(context_.ranks, {Task::steps, step}) : Status();
}

Status IslandSteps::begin(const std::vector<data::Batch>& micro, int64_t step, double learning_rate) {
    return runner_.begin_update(micro, data_step(step), learning_rate);
}

Result<TakenStep> IslandSteps::end(int64_t step) {
    HK_ASSIGN(TakenStep taken, runner_.end_update());
    if (!is_average_due(step + 1)) return taken;
    HK_TRY(islands_.step());
    taken.exchange = islands_.last_traffic();
    return taken;
}

Status IslandSteps::synchronize(int64_t step) {
    first_step_ = step;
    return islands_.synchronize();
}

Result<ResourceArray<float>> IslandSteps::read_moment(int32_t island, const program::ParameterEntry& entry,
                                                      program::StoreArena arena) {
    HK_TRY(command(context_.ranks, moment_command(Task::read_moment, context_.store, entry, arena, island)));
    ResourceArray<float> values(static_cast<std::size_t>(entry.shape.elements()));
    HK_TRY(move_bytes(context_.ranks, island, true, std::as_writable_bytes(std::span(values.data(), values.size()))));
    return values;
}

Status IslandSteps::write_moment(int32_t island, const program::ParameterEntry& entry, program::StoreArena arena,
                                 std::span<const float> values) {
    HK_TRY(command(context_.ranks, moment_command(Task::write_moment, context_.store, entry, arena, island)));
    std::vector<float> copy(values.begin(), values.end());
    return move_bytes(context_.ranks, island, false, std::as_writable_bytes(std::span(copy)));
}

Result<std::vector<std::byte>> IslandSteps::read_states(int32_t island) {
    HK_TRY(command(context_.ranks, {.task = Task::read_states, .island = island}));
    HK_ASSIGN(std::vector<std::byte> states, context_.optimizers.first().decision());
    HK_TRY(move_bytes(context_.ranks, island, true, states));
    return states;
}

Status IslandSteps::write_states(int32_t island, std::span<const std::byte> states) {
    HK_TRY(command(context_.ranks, {.task = Task::write_states, .island = island}));
    std::vector<std::byte> copy(states.begin(), states.end());
    return move_bytes(context_.ranks, island, false, copy);
}

// The outer momentum, and what each other island has of its own: moments and counters. An island that a checkpoint does
// not have is new, and continues with those of rank 0.
Result<std::vector<StateFile>> IslandSteps::state_files() {
    HK_ASSIGN(const std::vector<std::byte> states, context_.optimizers.first().decision());
    std::vector<StateFile> files;
    files.reserve(static_cast<std::size_t>(context_.ranks.size()));
    StateFile& outer = files.emplace_back();
    outer.name = "outer";
    for (const program::ParameterEntry& entry : context_.store.table()) {
        if (!entry.trained) continue;
        outer.tensors.push_back(float_state(
            "momentum.", entry,
            [this, &entry] { return Result<ResourceArray<float>>(std::span<const float>(islands_.momentum(entry))); },
            [this, &entry](std::span<const float> values) {
                std::ranges::copy(values, islands_.momentum(entry).begin());
                return Status();
            }));
    }
    for (int32_t island = 1; island < context_.ranks.size(); ++island) {
        StateFile& own = files.emplace_back();
        own.name = fmt::format("optimizer.island-{}", island);
        for (const program::ParameterEntry& entry : context_.store.table())
            for (const auto& [prefix, arena] : kMoments) {
                if (!entry.trained || !has_moment(arena)) continue;
                own.tensors.push_back(float_state(
                    prefix, entry, [this, island, &entry, arena = arena] { return read_moment(island, entry, arena); },
                    [this, island, &entry, arena = arena](std::span<const float> values) {
                        return write_moment(island, entry, arena, values);
                    }));
            }
        own.tensors.push_back(bytes_state(
            "states", states.size(), [this, island] { return read_states(island); },
            [this, island](std::span<const std::byte> stored) { return write_states(island, stored); }));
        own.begin_without = [this, island]() -> Status {
            context_.message(fmt::format("island {} is new: it continues with the moments of island 0", island));
            for (const program::ParameterEntry& entry : context_.store.table())
                for (const auto& [prefix, arena] : kMoments) {
                    if (!entry.trained || !has_moment(arena)) continue;
                    HK_ASSIGN(const ResourceArray<float> values, context_.store.download(entry.name, arena));
                    HK_TRY(write_moment(island, entry, arena, values));
                }
            HK_ASSIGN(const std::vector<std::byte> of_first, context_.optimizers.first().decision());
            return write_states(island, of_first);
        };
    }
    return files;
}

Status IslandSteps::obey(const RankCommand& command) {
    const bool own = command.island == context_.ranks.rank();
    const auto island = static_cast<int32_t>(command.island);
    const bool reads = command.task == Task::read_moment || command.task == Task::read_states;
    switch (command.task) {
    case Task::read_moment:
    case Task::write_moment: {
        const program::ParameterEntry& entry = context_.store.table()[static_cast<std::size_t>(command.entry)];
        const auto arena = static_cast<program::StoreArena>(command.arena);
        ResourceArray<float> values;
        if (own && reads) { HK_ASSIGN(values, context_.store.download(entry.name, arena)); }
        if (own && !reads) values = ResourceArray<float>(static_cast<std::size_t>(entry.shape.elements()));
        HK_TRY(
            move_bytes(context_.ranks, island, reads, std::as_writable_bytes(std::span(values.data(), values.size()))));
        return own && !reads ? context_.store.upload(entry.name, values, arena) : Status();
    }
    case Task::read_states:
    case Task::write_states: {
        HK_ASSIGN(std::vector<std::byte> states, context_.optimizers.first().decision());
        HK_TRY(move_bytes(context_.ranks, island, reads, states));
        return own && !reads ? context_.optimizers.first().set_decision(states) : Status();
    }
    default: return StepStrategy::obey(command);
    }
}

} // namespace hekla::train
