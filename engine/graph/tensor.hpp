// The value of a tensor on the host, in double precision.
#pragma once

#include "graph/shape.hpp"

#include <vector>

namespace hekla::graph {

struct Tensor {
    Kind kind = Kind::float_;
    Shape shape;
    std::vector<double> data; // row-major; integers are exact
};

} // namespace hekla::graph
