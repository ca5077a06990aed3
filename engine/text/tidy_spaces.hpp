// Removes spaces that tokenizers leave before punctuation and inside contractions.
#pragma once

#include <string>

namespace hekla::text {

// Changes "you ' re here ." to "you're here.": Hugging Face's clean_up_tokenization_spaces.
std::string tidy_spaces(std::string text);

} // namespace hekla::text
