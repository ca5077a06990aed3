// Tensors in host memory, as a program's inputs and outputs: float or int32_t.
#pragma once

#include "base/resource_array.hpp"
#include "graph/shape.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hekla::graph {
struct Tensor;
} // namespace hekla::graph

namespace hekla::program {

// A tensor on the host.
struct HostTensor {
    graph::Kind kind = graph::Kind::float32; // float32 or int32
    graph::Shape shape;
    ResourceArray<std::byte> bytes = {}; // float or int32_t elements, row-major
    std::span<const float> floats() const;
    std::span<const int32_t> ints() const;
};

// Convert from and to the tensors of the float64 interpreter (graph/reference.hpp).
std::vector<std::byte> bytes_of(const graph::Tensor& tensor);
graph::Tensor tensor_of(const HostTensor& host);

} // namespace hekla::program
