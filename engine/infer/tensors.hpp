// Tensors on the host, by name.
#pragma once

#include "graph/tensor.hpp"

#include <functional>
#include <map>
#include <string>

namespace hekla::infer {

using Tensors = std::map<std::string, graph::Tensor, std::less<>>;

} // namespace hekla::infer
