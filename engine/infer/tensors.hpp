// Tensors on the host, by name.
#pragma once

#include "graph/tensor.hpp"
#include "model/tensor.hpp"

#include <functional>
#include <map>
#include <string>

namespace hekla::infer {

using Tensors = std::map<std::string, graph::Tensor, std::less<>>;

// Returns a stored tensor in float64. unsupported: it has too many dimensions.
Result<graph::Tensor> tensor_of(const model::TensorView& view);

} // namespace hekla::infer
