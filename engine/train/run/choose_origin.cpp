#include "train/run/choose_origin.hpp"

#include "plugin/instances/rollout_use.hpp"
#include "train/run/data_origin.hpp"
#include "train/run/rollout_origin.hpp"

namespace hekla::train {

std::unique_ptr<ExampleOrigin> origin_of(const Recipe& recipe, const plugin::Registry& registry) {
    if (plugin::learns_from_rollouts(registry, recipe.objective.id)) return std::make_unique<RolloutOrigin>();
    return std::make_unique<DataOrigin>();
}

} // namespace hekla::train
