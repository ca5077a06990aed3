// Tensors on the host, by name.
#pragma once

#include "graph/graph.hpp"
#include "graph/tensor.hpp"
#include "model/tensor.hpp"

#include <functional>
#include <map>
#include <string>

namespace hekla::infer {

using Tensors = std::map<std::string, graph::Tensor, std::less<>>;

// Returns a stored tensor in float64. unsupported: it has too many dimensions.
Result<graph::Tensor> tensor_of(const model::TensorView& view);

// Returns a value of the graph in float64, computed from stored tensors of these names. corrupt: it depends on others.
Result<graph::Tensor> evaluate_stored(const graph::Graph& graph, graph::ValueId value,
                                      const std::map<std::string, const model::TensorView*>& stored);

} // namespace hekla::infer
