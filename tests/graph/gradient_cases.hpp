// Cases for the gradient check, by family.
#pragma once

#include "gradient_check.hpp"

namespace hekla::test {

using namespace graph;

std::vector<GradientCase> pointwise_cases();
std::vector<GradientCase> shape_cases();
std::vector<GradientCase> reduce_cases();
std::vector<GradientCase> layer_cases();
std::vector<GradientCase> recurrent_cases();
std::vector<GradientCase> attention_cases();
std::vector<GradientCase> window_cases();
std::vector<GradientCase> loop_cases();

} // namespace hekla::test
