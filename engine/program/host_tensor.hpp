// The interpreter's tensors, float64, to and from what a program takes and gives: float or int32_t.
#pragma once

#include "graph/reference.hpp"
#include "program/program.hpp"

#include <cstddef>
#include <vector>

namespace hekla::program {

std::vector<std::byte> bytes_of(const graph::Tensor& tensor);
graph::Tensor tensor_of(const HostTensor& host);

} // namespace hekla::program
