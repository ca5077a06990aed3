// What a run by islands (DiLoCo) has in its checkpoints besides the state of rank 0: the outer momentum, and the
// moments and counters of the other islands.
#include "train/training_run.hpp"

#include "model/finite.hpp"

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
        model::TensorSource source;
        source.name = "momentum." + entry.name;
        source.dtype = model::DType::f32;
        source.dims = entry.shape.vector();
        source.stream = [this, &entry](const model::Sink& sink) {
            return sink(std::as_bytes(islands_->momentum(entry)));
        };
        outer.push_back(model::finite_source(std::move(source)));
    }
    HK_TRY(writer.add_sharded("outer", outer));
    for (int32_t island = 1; island < ranks_->size(); ++island) {
        std::vector<model::TensorSource> own;
        for (const program::ParameterEntry& entry : store_->table())
            for (const auto& [prefix, arena] : kMoments) {
                if (!entry.trained || !has_moment(arena)) continue;
                model::TensorSource source;
                source.name = prefix + entry.name;
                source.dtype = model::DType::f32;
                source.dims = entry.shape.vector();
                source.stream = [this, island, &entry, arena = arena](const model::Sink& sink) -> Status {
                    HK_ASSIGN(const ResourceArray<float> values, island_moment(island, entry, arena));
                    return sink(std::as_bytes(std::span(values)));
                };
                own.push_back(model::finite_source(std::move(source)));
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
        HK_ASSIGN(const model::TensorView* tensor, outer.get("momentum." + entry.name));
        const std::span<float> to = islands_->momentum(entry);
        if (tensor->bytes.size() != to.size_bytes())
            return corrupt(fmt::format("{}: momentum.{} has another size than the parameter", checkpoint.path.string(),
                                       entry.name));
        HK_TRY(model::load_float32(*tensor, to));
    }
    for (int32_t island = 1; island < ranks_->size(); ++island) {
        const std::string file = fmt::format("optimizer.island-{}", island);
        const Result<model::Weights> own = model::Weights::open(checkpoint.path, file);
        const bool known = own.ok();
        if (!known) message(fmt::format("island {} is new: it continues with the moments of island 0", island));
        for (const program::ParameterEntry& entry : store_->table())
            for (const auto& [prefix, arena] : kMoments) {
                if (!entry.trained || !has_moment(arena)) continue;
                ResourceArray<float> values(static_cast<std::size_t>(entry.shape.elements()));
                if (known) {
                    HK_ASSIGN(const model::TensorView* tensor, own->get(prefix + entry.name));
                    HK_TRY(model::load_float32(*tensor, {values.data(), values.size()}));
                } else {
                    HK_ASSIGN(values, store_->download(entry.name, arena));
                }
                HK_TRY(set_island_moment(island, entry, arena, values));
            }
        HK_ASSIGN(std::vector<std::byte> states, optimizer_->decision());
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
