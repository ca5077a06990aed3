// A prefix as PEFT stores it: the keys and values of all layers in one tensor.
#pragma once

#include "adapted_model.hpp"
#include "model/folder.hpp"

namespace hekla::app {

// Adds the tensor of the adapter's prefix, [tokens, layers * width], to `contents`, and completes PEFT's configuration.
// Of a projected prefix it holds what the projection makes, as PEFT saves it. Does nothing if the adapter has no
// prefix. Errors: a prefix that PEFT has no form of. contents owns the values.
Status add_peft_prefix(const AdaptedModel& m, model::ModelContents& contents, nlohmann::ordered_json& config);

// Returns whether a tensor is part of a prefix, or of its projection.
bool is_of_prefix(const AdaptedModel& m, const std::string& tensor);

} // namespace hekla::app
