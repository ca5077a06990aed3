// The chat template of a model.
#pragma once

#include "infer/open/model.hpp"
#include "text/chat_template.hpp"

#include <string>

namespace hekla::infer {

// Returns a model's chat template. wanted: "auto" for its own, or what text::chat_template_of() takes. date: that it
// prints, "2026-01-31"; "": now. Errors: a model without a template of its own; those of reading one; not a date.
Result<text::ChatTemplate> chat_template_of(const Model& model, const std::string& wanted, const std::string& date);

} // namespace hekla::infer
