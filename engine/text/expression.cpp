#include "text/expression.hpp"

#include "base/utf8.hpp"
#include "text/pcre2.hpp"

#include <fmt/format.h>

namespace hekla::text {
namespace {

constexpr uint32_t kMostSteps = 100'000;
constexpr uint32_t kMostHeap = 16 << 10; // KiB of backtracking, which steps alone do not bound: a group may be large

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

// A compiled expression with what a match needs.
struct Matcher {
    std::unique_ptr<pcre2_code, FreePcre2> code;
    std::unique_ptr<pcre2_match_data, FreePcre2> match;
    std::unique_ptr<pcre2_match_context, FreePcre2> context;

    static Result<Matcher> create(std::string_view expression, uint32_t options) {
        Matcher m;
        int problem = 0;
        PCRE2_SIZE at = 0;
        m.code.reset(pcre2_compile(units(expression), expression.size(), PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C | options,
                                   &problem, &at, nullptr));
        if (m.code == nullptr)
            return invalid_argument(fmt::format("'{}' is not a regular expression: {}, at its character {}", expression,
                                                pcre2_message(problem), at + 1));
        m.match.reset(pcre2_match_data_create_from_pattern(m.code.get(), nullptr));
        m.context.reset(pcre2_match_context_create(nullptr));
        if (m.match == nullptr || m.context == nullptr) return out_of_memory("the regular expression's match data");
        pcre2_set_match_limit(m.context.get(), kMostSteps);
        pcre2_set_depth_limit(m.context.get(), kMostSteps);
        pcre2_set_heap_limit(m.context.get(), kMostHeap);
        return m;
    }

    // Returns the number of groups that took part, and one for the whole; 0: no match from `begin` on.
    Result<std::size_t> find(std::string_view expression, std::string_view text, std::size_t begin, uint32_t options) {
        const int found = pcre2_match(code.get(), units(text), text.size(), begin, options, match.get(), context.get());
        if (found == PCRE2_ERROR_NOMATCH) return std::size_t{0};
        if (found < 0)
            return invalid_argument(
                fmt::format("the regular expression '{}' fails for '{}': {}", expression, text, pcre2_message(found)));
        return static_cast<std::size_t>(found);
    }
};

} // namespace

Result<bool> matches_expression(std::string_view expression, std::string_view text) {
    HK_ASSIGN(Matcher matcher, Matcher::create(expression, PCRE2_ANCHORED | PCRE2_ENDANCHORED));
    HK_ASSIGN(const std::size_t found, matcher.find(expression, text, 0, 0));
    return found > 0;
}

Result<std::vector<std::string>> find_matches(std::string_view expression, std::string_view text) {
    HK_ASSIGN(Matcher matcher, Matcher::create(expression, 0));
    std::vector<std::string> all;
    uint32_t options = 0;
    for (std::size_t begin = 0; begin <= text.size();) {
        HK_ASSIGN(const std::size_t found, matcher.find(expression, text, begin, options));
        if (found == 0) {
            if (options == 0) break;
            options = 0; // after an empty match, the next one may begin a character later
            begin += begin < text.size() ? first_code_point(text.substr(begin)).size : 1;
            continue;
        }
        const PCRE2_SIZE* const places = pcre2_get_ovector_pointer(matcher.match.get());
        const auto group = [&](std::size_t number) {
            const PCRE2_SIZE from = places[2 * number], to = places[2 * number + 1];
            return from == PCRE2_UNSET ? std::string_view() : text.substr(from, to - from);
        };
        uint32_t groups = 0;
        pcre2_pattern_info(matcher.code.get(), PCRE2_INFO_CAPTURECOUNT, &groups);
        std::string_view chosen = groups == 0 ? group(0) : std::string_view();
        for (std::size_t number = 1; number < found && chosen.empty(); ++number) chosen = group(number);
        all.emplace_back(chosen);
        begin = places[1];
        options = places[0] == places[1] ? PCRE2_NOTEMPTY_ATSTART | PCRE2_ANCHORED : 0;
    }
    return all;
}

} // namespace hekla::text
