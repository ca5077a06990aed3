// Initial values of parameters that are not loaded from a file.
#pragma once

#include "graph/graph.hpp"

#include <vector>

namespace hekla::train {

// Returns the values of a parameter leaf. They depend only on the seed and the parameter's name, not on the order or on
// other parameters.
std::vector<float> initial_values(const graph::Node& parameter, uint64_t seed);

} // namespace hekla::train
