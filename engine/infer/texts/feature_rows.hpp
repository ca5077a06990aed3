// The rows of token ids that texts become where their features are wanted.
#pragma once

#include "infer/open/model.hpp"

#include <span>
#include <string>
#include <vector>

namespace hekla::infer {

struct FeatureTexts {
    std::span<const std::string> texts;
    std::string prompt;      // is put before each text
    bool framed = true;      // false: without the tokenizer's tokens around a text
    bool lower_case = false; // texts are lowercased first
    std::size_t longest = 0; // tokens of a row, special tokens included; the rest is left out. 0: not limited
};

struct FeatureRows {
    std::vector<std::vector<int32_t>> ids;
    std::size_t prompt = 0; // tokens at the beginning of every row that are of the prompt
    std::size_t cut = 0;    // rows that were longer than `longest`
};

// Errors: no tokenizer; an empty text, by its number from 1; those of the tokenizer.
Result<FeatureRows> feature_rows(const Model& model, const FeatureTexts& given);

} // namespace hekla::infer
