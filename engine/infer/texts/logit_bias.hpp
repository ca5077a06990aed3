// Biases of logits, as users write them.
#pragma once

#include "generate/options.hpp"
#include "text/tokenizer.hpp"

#include <string>
#include <vector>

namespace hekla::infer {

// Reads biases "TOKEN=NUMBER": TOKEN is an id, a text that is one token, or such a text as a JSON string; NUMBER is
// finite, or -inf. Errors: another form; a text of several tokens.
Result<std::vector<generate::LogitBias>> parse_logit_biases(const text::Tokenizer& tokenizer,
                                                            const std::vector<std::string>& biases);

} // namespace hekla::infer
