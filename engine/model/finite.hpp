// Finds, reports and refuses NaN and infinite values in stored tensors.
#pragma once

#include "model/tensor.hpp"

#include <optional>

namespace hekla::model {

struct NonFiniteElement {
    std::size_t index = 0; // row-major
    double value = 0.0;    // NaN or infinite
};

// Returns the first element that is NaN or infinite. Integer types have none.
std::optional<NonFiniteElement> first_non_finite(DType dtype, std::span<const std::byte> bytes);

// Returns corrupt with the tensor and the element, if the tensor has such an element.
Status check_finite(const TensorView& tensor);

// Wraps a tensor. Its stream ends with check_finite()'s error at the first such element.
TensorSource finite_source(TensorSource source);

} // namespace hekla::model
