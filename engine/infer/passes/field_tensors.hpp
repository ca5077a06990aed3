// Tensors as the fields of a batch.
#pragma once

#include "infer/open/tensors.hpp"
#include "plugin/composition/compose.hpp"

#include <vector>

namespace hekla::infer {

// Returns an int32 tensor [rows, length] filled with one value.
graph::Tensor integers(int64_t rows, int64_t length, int64_t value);

// Returns names, kinds and shapes, for Composition::build().
std::vector<plugin::BatchField> described(const Tensors& fields);

} // namespace hekla::infer
