// Where a training's examples come from, by the objective of its recipe.
#pragma once

#include "train/run/example_origin.hpp"

namespace hekla::train {

std::unique_ptr<ExampleOrigin> origin_of(const Recipe& recipe, const plugin::Registry& registry);

} // namespace hekla::train
