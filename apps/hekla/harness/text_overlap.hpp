// Scores of a written text against a reference by the words they share: F1 as for SQuAD, and ROUGE.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::harness {

// Returns the words that squad_f1() compares (Rajpurkar et al. 2016): in lower case, without ASCII punctuation and the
// articles a, an and the. Letters outside ASCII keep their case.
std::vector<std::string> squad_words(std::string_view text);
// Returns the F1 of the words that both texts have, each counted as often as it occurs in both: 0 to 1. Two texts
// without words: 1; one without: 0.
double squad_f1(std::string_view prediction, std::string_view reference);

// Returns the words that ROUGE compares, as the package rouge_score makes them without a stemmer: in lower case, runs
// of a to z and 0 to 9.
std::vector<std::string> rouge_words(std::string_view text);
// ROUGE-N (Lin 2004): the F-measure of the n-grams that both texts have, 0 to 1. 0 if one has none.
double rouge_n(std::string_view prediction, std::string_view reference, std::size_t n);
// ROUGE-L of the texts as one sentence each: the F-measure of their longest common subsequence of words, 0 to 1.
double rouge_l(std::string_view prediction, std::string_view reference);

} // namespace hekla::harness
