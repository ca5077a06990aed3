// From the responses of a document to the answer that is scored.
#pragma once

#include "harness/task.hpp"

#include <span>
#include <string>

namespace hekla::harness {

// Returns the answer. Error: the steps leave several responses.
Result<std::string> filtered(const FilterPipeline& pipeline, std::span<const std::string> responses);

} // namespace hekla::harness
