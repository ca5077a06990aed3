// How parameters begin when no file gives them.
#pragma once

#include "graph/graph.hpp"

#include <vector>

namespace hekla::train {

// The values of a parameter leaf: drawn by (seed, the parameter's name), so that neither order nor other parameters
// matter.
std::vector<float> initial_values(const graph::Node& parameter, uint64_t seed);

} // namespace hekla::train
