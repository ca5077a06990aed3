// What a graph is computed from, in double precision.
#pragma once

#include "graph/tensor.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace hekla::graph {

// All inputs of a graph. A missing leaf is an error with its name; a buffer that is not given has the value described
// in the graph.
struct Feeds {
    std::map<std::string, Tensor, std::less<>> fields; // inputs
    std::map<std::string, Tensor, std::less<>> parameters;
    std::map<std::string, Tensor, std::less<>> buffers;
    std::map<std::string, double, std::less<>> step_scalars; // default: the leaf's initial
    uint64_t seed = 0;
    uint64_t step = 0;
    uint64_t first_example = 0; // of this micro-batch in the step
};

} // namespace hekla::graph
