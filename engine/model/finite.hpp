// NaN and infinite values in stored tensors: found, named and refused.
#pragma once

#include "model/tensor.hpp"

#include <optional>

namespace hekla::model {

struct NonFiniteElement {
    std::size_t index = 0; // row-major
    double value = 0.0;    // NaN or infinite
};

// Returns the first element that is NaN or infinite. Types without fractions have none.
std::optional<NonFiniteElement> first_non_finite(DType dtype, std::span<const std::byte> bytes);

// corrupt where the tensor has such an element: names the tensor and the element.
Status check_finite(const TensorView& tensor);

// The same tensor. Its stream ends with check_finite()'s error at the first such element.
TensorSource finite_source(TensorSource source);

} // namespace hekla::model
