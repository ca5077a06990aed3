// A model's token embedding: the nearest neighbors of words, and the text format of word2vec.
#pragma once

#include "base/status.hpp"
#include "text/tokenizer.hpp"

#include <span>
#include <string>
#include <vector>

namespace hekla::app {

// [rows, width], row-major; rows may be more than the tokenizer has ids.
struct VectorTable {
    std::vector<float> values;
    std::size_t rows = 0, width = 0;
};

struct Neighbor {
    std::string token;
    double cosine = 0.0;
};

// Returns the tokens with the largest cosine to the word, without the word itself and special tokens. Error: the word
// is not a single token (the message lists its tokens).
Result<std::vector<Neighbor>> nearest(const VectorTable& table, const text::Tokenizer& tokenizer,
                                      const std::string& word, std::size_t count);

// Returns the text format: "ROWS WIDTH", then one line per token: the token and its numbers, separated by spaces.
// Tokens with white space are omitted, since the format cannot represent them.
std::string word2vec_text(const VectorTable& table, const text::Tokenizer& tokenizer);

} // namespace hekla::app
