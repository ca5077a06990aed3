// A model's table of tokens' vectors for people: the nearest neighbours of words, and the text format of word2vec.
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

struct Neighbour {
    std::string token;
    double cosine = 0.0;
};

// The tokens whose vectors point most nearly where the word's does, without the word itself and special tokens. Error:
// a word that is not one token of the vocabulary (names how it is cut).
Result<std::vector<Neighbour>> nearest(const VectorTable& table, const text::Tokenizer& tokenizer,
                                       const std::string& word, std::size_t count);

// "ROWS WIDTH", then a token and its numbers a line, apart by spaces. Tokens with white space are left out, for the
// format cannot say them.
std::string word2vec_text(const VectorTable& table, const text::Tokenizer& tokenizer);

} // namespace hekla::app
