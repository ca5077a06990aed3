// BLEU (Papineni et al. 2002) and chrF (Popovic 2015) of a whole test set, by sacreBLEU's definitions (Post 2018, "A
// call for clarity in reporting BLEU scores"), with one or several references per sentence.
#pragma once

#include "base/status.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::score {

// Tokenizes with sacreBLEU's 13a (that of mteval-v13a): punctuation becomes a separate token, except inside numbers.
std::vector<std::string> tokenize_13a(std::string_view line);

struct Bleu {
    double score = 0.0;                 // 0 to 100
    std::array<double, 4> precisions{}; // percent, smoothed if nothing matched
    double brevity_penalty = 0.0;
    uint64_t system_length = 0; // tokens
    uint64_t reference_length = 0;
    std::string signature;    // the settings, in sacreBLEU's format
    std::string text() const; // "BLEU = 27.30 58.1/33.2/... (BP = 1.000 ...)"
};

// What BLEU counts in one sentence, or, added, in several.
struct BleuCounts {
    std::array<uint64_t, 4> total{}, correct{}; // n-grams of the hypothesis, and those that a reference has too
    uint64_t system_length = 0;                 // tokens
    uint64_t reference_length = 0;              // of the reference of the nearest length

    void add(const BleuCounts& other);
    double score() const; // 0 to 100
};
// Errors: no references, text that is not UTF-8.
Result<BleuCounts> bleu_counts(const std::string& hypothesis, std::span<const std::string> references);

// references[r][i] is reference r of hypothesis i. Case-sensitive; smoothing is exponential. Errors: no hypotheses, no
// references, a list of another length, text that is not UTF-8.
Result<Bleu> bleu(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references);

struct Chrf {
    double score = 0.0; // 0 to 100
    std::string signature;
};

// What chrF counts in one sentence, or, added, in several: character n-grams of each order.
struct ChrfCounts {
    std::array<double, 6> hypothesis{}, reference{}, match{};

    void add(const ChrfCounts& other);
    double score() const; // 0 to 100
};
// Returns the counts of the reference with the best score. Errors: no references, text that is not UTF-8.
Result<ChrfCounts> chrf_counts(const std::string& hypothesis, std::span<const std::string> references);

// Computes character n-grams of orders 1 to 6, beta 2, without white space; of several references the best for each
// sentence.
Result<Chrf> chrf(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references);

} // namespace hekla::score
