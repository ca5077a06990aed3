// Spaces that tokenizers leave before punctuation and inside contractions.
#pragma once

#include <string>

namespace hekla::text {

// "you ' re here ." becomes "you're here.": Hugging Face's clean_up_tokenization_spaces.
std::string tidy_spaces(std::string text);

} // namespace hekla::text
