// What a run by islands (DiLoCo) has in its checkpoints besides the state of rank 0: the outer momentum, and the
// moments and counters of the other islands.
#include "train/training_run.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::train {

Status TrainingRun::check_islands() const {
    if (!has_islands()) return {};
    const DistributedSection& d = recipe_.distributed;
    for (const auto& [name, steps] :
         {std::pair("eval_steps", recipe_.train.eval_steps), std::pair("save_steps", recipe_.train.save_steps)})
        if (steps % d.inner_steps != 0)
            return invalid_argument(fmt::format("train.{} = {}: expected a multiple of distributed.inner_steps = {}, "
                                                "after which all ranks have the same parameters",
                                                name, steps, d.inner_steps));
    return {};
}

// Adds what the other islands have of their own, and the outer momentum.
Status TrainingRun::add_islands(model::CheckpointWriter& writer) {
    std::vector<model::TensorSource> outer;
    for (const program::ParameterEntry& entry : store_->table()) {
        if (!entry.trained) continue;
        outer.push_back(float_source("momentum.", entry, [this, &entry] {
            return Result<ResourceArray<float>>(std::span<const float>(islands_->momentum(entry)));
        }));
    }
    HK_TRY(writer.add_sharded("outer", outer));
    for (int32_t island = 1; island < ranks_->size(); ++island) {
        std::vector<model::TensorSource> own;
        for (const program::ParameterEntry& entry : store_->table())
            for (const auto& [prefix, arena] : kMoments) {
                if (!entry.trained || !has_moment(arena)) continue;
                own.push_back(float_source(prefix, entry, [this, island, &entry, arena = arena] {
                    return island_moment(island, entry, arena);
                }));
            }
        HK_ASSIGN(const std::vector<std::byte> states, island_states(island));
        model::TensorSource state;
        state.name = "states";
        state.dtype = model::DType::u8;
        state.dims = {std::ssize(states)};
        state.stream = [states](const model::Sink& sink) { return sink(states); };
        own.push_back(std::move(state));
        HK_TRY(writer.add_sharded(fmt::format("optimizer.island-{}", island), own));
    }
    return {};
}

// Restores what add_islands() has written. A new island continues with the moments of rank 0.
Status TrainingRun::load_islands(const model::Checkpoint& checkpoint) {
    HK_ASSIGN(const model::Weights outer, model::Weights::open(checkpoint.path, "outer"));
    for (const program::ParameterEntry& entry : store_->table()) {
        if (!entry.trained) continue;
        HK_ASSIGN(const ResourceArray<float> values, load_values(checkpoint.path, outer, "momentum.", entry));
        std::ranges::copy(values, islands_->momentum(entry).begin());
    }
    for (int32_t island = 1; island < ranks_->size(); ++island) {
        const std::string file = fmt::format("optimizer.island-{}", island);
        const Result<model::Weights> own = model::Weights::open(checkpoint.path, file);
        if (!own.ok() && own.code() != Code::not_found) return own.status();
        const bool known = own.ok();
        if (!known) message(fmt::format("island {} is new: it continues with the moments of island 0", island));
        for (const program::ParameterEntry& entry : store_->table())
            for (const auto& [prefix, arena] : kMoments) {
                if (!entry.trained || !has_moment(arena)) continue;
                HK_ASSIGN(const ResourceArray<float> values,
                          known ? load_values(checkpoint.path, own.value(), prefix, entry)
                                : store_->download(entry.name, arena));
                HK_TRY(set_island_moment(island, entry, arena, values));
            }
        HK_ASSIGN(std::vector<std::byte> states, optimizers_.front()->decision());
        if (known) {
            HK_ASSIGN(const model::TensorView* tensor, own->get("states"));
            if (tensor->bytes.size() != states.size())
                return corrupt(fmt::format("{}: the states of {} have another size", checkpoint.path.string(), file));
            states.assign(tensor->bytes.begin(), tensor->bytes.end());
        }
        HK_TRY(set_island_states(island, std::move(states)));
    }
    return {};
}

} // namespace hekla::train
