#include "harness/text_overlap.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace hekla::harness {
namespace {

using Words = std::vector<std::string>;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_ascii_punctuation(char c) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

bool is_blank_character(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

double f_measure(double common, double predicted, double referenced) {
    if (common == 0.0) return 0.0;
    const double precision = common / predicted, recall = common / referenced;
    return 2.0 * precision * recall / (precision + recall);
}

std::map<Words, uint64_t> runs_of(const Words& words, std::size_t n) {
    std::map<Words, uint64_t> counts;
    for (std::size_t begin = 0; begin + n <= words.size(); ++begin) {
        const auto first = words.begin() + static_cast<std::ptrdiff_t>(begin);
        ++counts[Words(first, first + static_cast<std::ptrdiff_t>(n))];
    }
    return counts;
}

// Returns the F-measure of the runs of n words that both have.
double shared_runs(const Words& prediction, const Words& reference, std::size_t n) {
    const std::map<Words, uint64_t> predicted = runs_of(prediction, n), referenced = runs_of(reference, n);
    uint64_t common = 0, of_prediction = 0, of_reference = 0;
    for (const auto& [run, count] : predicted) {
        of_prediction += count;
        if (const auto found = referenced.find(run); found != referenced.end())
            common += std::min(count, found->second);
    }
    for (const auto& [run, count] : referenced) of_reference += count;
    return f_measure(static_cast<double>(common), static_cast<double>(of_prediction),
                     static_cast<double>(of_reference));
}

} // namespace

Words squad_words(std::string_view text) {
    Words words;
    std::string word;
    const auto end_word = [&] {
        if (word.empty()) return;
        if (word != "a" && word != "an" && word != "the") words.push_back(word);
        word.clear();
    };
    for (const char c : text) {
        if (is_blank_character(c))
            end_word();
        else if (!is_ascii_punctuation(c))
            word += lower(c);
    }
    end_word();
    return words;
}

double squad_f1(std::string_view prediction, std::string_view reference) {
    const Words predicted = squad_words(prediction), referenced = squad_words(reference);
    if (predicted.empty() && referenced.empty()) return 1.0;
    return shared_runs(predicted, referenced, 1);
}

Words rouge_words(std::string_view text) {
    Words words;
    std::string word;
    for (const char given : text) {
        const char c = lower(given);
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
            word += c;
        else if (!word.empty())
            words.push_back(std::exchange(word, {}));
    }
    if (!word.empty()) words.push_back(std::move(word));
    return words;
}

double rouge_n(std::string_view prediction, std::string_view reference, std::size_t n) {
    return shared_runs(rouge_words(prediction), rouge_words(reference), n);
}

double rouge_l(std::string_view prediction, std::string_view reference) {
    const Words predicted = rouge_words(prediction), referenced = rouge_words(reference);
    std::vector<uint64_t> above(predicted.size() + 1, 0), row = above; // lengths of common subsequences
    for (const std::string& word : referenced) {
        for (std::size_t i = 0; i < predicted.size(); ++i)
            row[i + 1] = predicted[i] == word ? above[i] + 1 : std::max(above[i + 1], row[i]);
        above.swap(row);
    }
    return f_measure(static_cast<double>(above.back()), static_cast<double>(predicted.size()),
                     static_cast<double>(referenced.size()));
}

} // namespace hekla::harness
