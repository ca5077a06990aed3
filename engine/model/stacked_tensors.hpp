// Tensors that files hold one by one and a model as one: the matrices of experts, mlp.experts.0.up_proj.weight and so
// on, which are stacked along a new first axis as mlp.experts.up_proj.weight, and divided again when they are written.
#pragma once

#include "model/tensor.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hekla::model {

// A stack's pattern is the ending of a stored name with # for the number: "mlp.experts.#.up_proj.weight". The parameter
// has the name without "#.".

// Some of a folder's tensors, stacked.
struct StackedTensors {
    std::vector<bool> stacked; // for each stored tensor: whether it is part of one of `tensors`
    std::vector<std::shared_ptr<const TensorView>> tensors;
};

// Stacks those of `stored` that a pattern names, without copying their bytes, which must outlive the result. `where`
// begins the message. Errors: corrupt for a number that is missing, or a part of another type or shape than number 0.
Result<StackedTensors> stack_tensors(std::span<const TensorView> stored, std::span<const std::string> patterns,
                                     const std::string& where);

// Returns `stored` with its stacks in place of their parts.
Result<std::vector<TensorView>> with_stacks(std::span<const TensorView> stored, std::span<const std::string> patterns,
                                            const std::string& where);

// Replaces each stacked tensor by its parts, in order; other tensors stay as they are. A stack is streamed once, when
// the first of its parts is, and kept in memory until all have been.
std::vector<TensorSource> divide_stacks(std::vector<TensorSource> tensors, std::span<const std::string> patterns);

} // namespace hekla::model
