#include "text/pipeline/pattern.hpp"

#include "base/utf8.hpp"
#include "text/pcre2.hpp"
#include "text/pipeline/oniguruma.hpp"

#include <fmt/format.h>

namespace hekla::text {

Result<Regex> Regex::compile(const std::string& expression) {
    Regex regex(expression);
    HK_ASSIGN(const std::string translated, pcre2_of_oniguruma(expression));
    int error = 0;
    PCRE2_SIZE at = 0;
    const std::unique_ptr<pcre2_compile_context, FreePcre2> context(pcre2_compile_context_create(nullptr));
    if (context == nullptr) return out_of_memory("the regular expression's context could not be allocated");
    pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
    pcre2_code* code =
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &at, context.get());
    if (code == nullptr)
        return corrupt(fmt::format("the pattern {} is not a regular expression that PCRE2 reads: {}", expression,
                                   pcre2_message(error)));
    // Uses machine code if PCRE2 supports it; otherwise the same matches are slower.
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    regex.code_ = std::shared_ptr<const void>(
        code, [](const void* p) { pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(p))); });
    return regex;
}

Status Regex::find(std::string_view text,
                   const std::function<Status(std::size_t begin, std::size_t end)>& found) const {
    const auto* code = static_cast<const pcre2_code*>(code_.get());
    const std::unique_ptr<pcre2_match_data, FreePcre2> match(pcre2_match_data_create(1, nullptr));
    if (match == nullptr) return out_of_memory("the regular expression's match data could not be allocated");
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    std::size_t last = SIZE_MAX; // end of the last match: an empty one there does not count
    for (std::size_t from = 0; from <= text.size();) {
        const int result = pcre2_match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, match.get(), nullptr);
        if (result == PCRE2_ERROR_NOMATCH) break;
        if (result < 0)
            return unsupported(fmt::format("the pattern {} failed at byte {} of a text of {}: {}", expression_, from,
                                           text.size(), pcre2_message(result)));
        const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
        if (range[0] < from || range[1] < range[0])
            return unsupported(fmt::format("the pattern {} moves the start of its match", expression_));
        if (range[0] == range[1] && range[1] == last) {
            from += from < text.size() ? first_code_point(text.substr(from)).size : 1;
            continue;
        }
        HK_TRY(found(range[0], range[1]));
        last = from = range[1];
    }
    return {};
}

Pattern Pattern::of_text(std::string text) {
    Pattern pattern;
    pattern.text_ = std::move(text);
    return pattern;
}

Pattern Pattern::of_regex(Regex regex) {
    Pattern pattern;
    pattern.regex_ = std::make_shared<const Regex>(std::move(regex));
    return pattern;
}

Pattern Pattern::of_characters(Predicate predicate) {
    Pattern pattern;
    pattern.predicate_ = predicate;
    return pattern;
}

Status Pattern::find(std::string_view text, std::vector<PatternPart>& parts) const {
    parts.clear();
    std::size_t done = 0;
    const auto put = [&](std::size_t begin, std::size_t end) {
        if (begin != done) parts.push_back({done, begin, false});
        parts.push_back({begin, end, true});
        done = end;
        return Status();
    };
    if (predicate_ != nullptr) {
        for (std::size_t at = 0; at < text.size();) {
            const CodePoint character = first_code_point(text.substr(at));
            if (predicate_(character.value)) HK_TRY(put(at, at + character.size));
            at += character.size;
        }
    } else if (regex_ != nullptr) {
        HK_TRY(regex_->find(text, put));
    } else {
        for (std::size_t at = text.find(text_); at != std::string_view::npos; at = text.find(text_, at + text_.size()))
            HK_TRY(put(at, at + text_.size()));
    }
    if (done != text.size()) parts.push_back({done, text.size(), false});
    return {};
}

} // namespace hekla::text
