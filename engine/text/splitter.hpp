// Pre-tokenization: splits a text into the words inside which merges happen, by a regular expression. GPT-2's is
// implemented in text/gpt2_words.hpp. The text between two matches is also a word.
#pragma once

#include "base/status.hpp"
#include "text/gpt2_words.hpp"
#include "text/pipeline/pattern.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace hekla::text {

// GPT-2's expression (Radford et al. 2019, "Language models are unsupervised multitask learners"), as in its files.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

class Splitter {
public:
    static Result<Splitter> compile(const std::string& pattern);
    static Splitter gpt2();

    const std::string& pattern() const { return pattern_; }
    bool is_gpt2() const { return !regex_; }

    // Calls `word(begin, end)` for the words of a valid UTF-8 text, in order and without gaps. Stops at the first error
    // of `word`. Other errors: the expression needs more steps than PCRE2 allows. Thread: any.
    template<class Word>
    Status split(std::string_view text, const Word& word) const {
        if (!is_gpt2()) return match(text, word);
        for (std::size_t begin = 0; begin < text.size();) {
            const std::size_t end = gpt2_word_end(text, begin);
            HK_TRY(word(begin, end));
            begin = end;
        }
        return {};
    }

private:
    explicit Splitter(std::string pattern) : pattern_(std::move(pattern)) {}
    template<class Word>
    Status match(std::string_view text, const Word& word) const {
        std::size_t done = 0; // words up to here have been passed on
        HK_TRY(regex_->find(text, [&](std::size_t begin, std::size_t end) {
            if (begin > done) HK_TRY(word(done, begin));
            done = end;
            return end > begin ? word(begin, end) : Status();
        }));
        return done < text.size() ? word(done, text.size()) : Status();
    }

    std::string pattern_;
    std::optional<Regex> regex_; // none for GPT-2's
};

} // namespace hekla::text
