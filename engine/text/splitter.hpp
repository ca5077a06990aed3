// Pre-tokenization: splits a text into the words inside which merges happen, by a regular expression. GPT-2's is
// implemented in text/gpt2_words.hpp, all others run in PCRE2 with Unicode properties. The text between two matches is
// also a word.
#pragma once

#include "base/status.hpp"
#include "text/gpt2_words.hpp"

#include <functional>
#include <memory>
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
    bool is_gpt2() const { return code_ == nullptr; }

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
    Status match(std::string_view text, const std::function<Status(std::size_t begin, std::size_t end)>& word) const;

    std::string pattern_;
    std::shared_ptr<const void> code_; // pcre2_code, immutable once compiled; null for GPT-2's
};

} // namespace hekla::text
