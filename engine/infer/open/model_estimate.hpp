// Adds to an estimate what it takes to run a model that is only described: a pass over rows of tokens, or the
// generation of a token.
#pragma once

#include "infer/passes/forward.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace hekla::infer {

// Both add the model's weights, stored as `weights`, and its programs. rows and length: of the batch, at least 1.
// Errors: those of ParameterStore::create and of describing and lowering the model.

// The unit of work is one pass. ports and attention: as for Forward::create.
Status estimate_pass(program::Estimator& estimator, Model& model, program::Storage weights, int64_t rows,
                     int64_t length, const std::vector<std::string>& ports = {}, bool attention = false);
// The unit of work is a token of every row; length: of the longest row, the prompt included. The model has the head lm.
Status estimate_generation(program::Estimator& estimator, Model& model, program::Storage weights, int64_t rows,
                           int64_t length);

} // namespace hekla::infer
