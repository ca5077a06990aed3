// Finds the first value of a step that is not finite, on the device and in the float64 interpreter. The interpreter
// distinguishes an error of the model from a lack of precision.
#pragma once

#include "data/batcher.hpp"
#include "program/program.hpp"
#include "train/recipe/recipe.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hekla::app {

struct NonFinite {
    std::string what;  // "softmax in block.1/attention", "parameter wte.weight (before the step)"
    std::string where; // "element 17 of [2, 64] is nan"
};

struct NonFiniteSearch {
    std::optional<NonFinite> device;
    std::optional<NonFinite> exact; // in float64, from the same parameters and batches
    bool computed_exactly = false;  // float64 was tried; false if a parameter was not finite before the step
};

// Runs a step of `described` (mode train) over its micro-batches with the store's parameters. On the device every value
// becomes an output, some at a time; the bits of a value do not depend on fusion.
Result<NonFiniteSearch> find_non_finite(program::Runtime& runtime, program::ParameterStore& store,
                                        const graph::Graph& described, const std::vector<data::Batch>& batches,
                                        const train::Recipe& recipe);

} // namespace hekla::app
