#include "text/splitter.hpp"

#include "text/pcre2.hpp"

#include <fmt/format.h>

namespace hekla::text {
namespace {

// `\s` and `\S` in the expressions of tokenizers mean Unicode's White_Space. PCRE2's `\s` is ASCII without PCRE2_UCP
// and includes U+180E with it, so both are spelled out. Inside a class `\S` cannot be expressed this way and is left to
// PCRE2.
constexpr std::string_view kWhiteSpace =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

std::string spell_white_space(std::string_view pattern) {
    std::string out;
    bool in_class = false;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        const char c = pattern[i];
        if (c == '\\' && i + 1 < pattern.size()) {
            const char next = pattern[++i];
            if (next == 's') {
                out += in_class ? std::string(kWhiteSpace) : fmt::format("[{}]", kWhiteSpace);
            } else if (next == 'S' && !in_class) {
                out += fmt::format("[^{}]", kWhiteSpace);
            } else {
                out += c;
                out += next;
            }
            continue;
        }
        if (c == '[' && !in_class) {
            in_class = true;
        } else if (c == ']') {
            in_class = false;
        }
        out += c;
    }
    return out;
}

} // namespace

Result<Splitter> Splitter::compile(const std::string& pattern) {
    Splitter splitter(pattern);
    if (pattern == kGpt2Pattern) return splitter;
    const std::string spelt = spell_white_space(pattern);
    int error = 0;
    PCRE2_SIZE at = 0;
    pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelt.data()), spelt.size(),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr);
    if (code == nullptr)
        return corrupt(fmt::format("the pattern {} is not a regular expression that PCRE2 reads: {}", pattern,
                                   pcre2_message(error)));
    // Uses machine code if PCRE2 supports it; otherwise the same matches are slower.
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    splitter.code_ = std::shared_ptr<const void>(
        code, [](const void* p) { pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(p))); });
    return splitter;
}

Splitter Splitter::gpt2() { return Splitter(std::string(kGpt2Pattern)); }

Status Splitter::match(std::string_view text, const std::function<Status(std::size_t, std::size_t)>& word) const {
    const auto* code = static_cast<const pcre2_code*>(code_.get());
    const std::unique_ptr<pcre2_match_data, FreePcre2> match(pcre2_match_data_create_from_pattern(code, nullptr));
    if (match == nullptr) return out_of_memory("the regular expression's match data could not be allocated");
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    std::size_t done = 0; // words up to here have been passed on
    std::size_t from = 0; // earliest start of the next match
    while (from < text.size()) {
        const int found =
            pcre2_match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match.get(), nullptr);
        if (found == PCRE2_ERROR_NOMATCH) break;
        if (found < 0)
            return unsupported(fmt::format("the pattern {} failed at byte {} of a text of {}: {}", pattern_, from,
                                           text.size(), pcre2_message(found)));
        const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
        if (range[0] < from || range[1] <= range[0])
            return unsupported(fmt::format("the pattern {} moves the start of its match", pattern_));
        if (range[0] > done) HK_TRY(word(done, range[0]));
        HK_TRY(word(range[0], range[1]));
        done = from = range[1];
    }
    if (done < text.size()) HK_TRY(word(done, text.size()));
    return {};
}

} // namespace hekla::text
