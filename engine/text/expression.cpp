#include "text/expression.hpp"

#include "text/pcre2.hpp"

#include <fmt/format.h>

namespace hekla::text {
namespace {

constexpr uint32_t kMostSteps = 100'000;

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

} // namespace

Result<bool> matches_expression(std::string_view expression, std::string_view text) {
    int problem = 0;
    PCRE2_SIZE at = 0;
    const std::unique_ptr<pcre2_code, FreePcre2> code(pcre2_compile(
        units(expression), expression.size(), PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_NEVER_BACKSLASH_C,
        &problem, &at, nullptr));
    if (code == nullptr)
        return invalid_argument(fmt::format("'{}' is not a regular expression: {}, at its character {}", expression,
                                            pcre2_message(problem), at + 1));
    const std::unique_ptr<pcre2_match_data, FreePcre2> match(pcre2_match_data_create_from_pattern(code.get(), nullptr));
    const std::unique_ptr<pcre2_match_context, FreePcre2> context(pcre2_match_context_create(nullptr));
    if (match == nullptr || context == nullptr) return out_of_memory("the regular expression's match data");
    pcre2_set_match_limit(context.get(), kMostSteps);
    pcre2_set_depth_limit(context.get(), kMostSteps);
    const int found = pcre2_match(code.get(), units(text), text.size(), 0, 0, match.get(), context.get());
    if (found == PCRE2_ERROR_NOMATCH) return false;
    if (found < 0)
        return invalid_argument(
            fmt::format("the regular expression '{}' fails for '{}': {}", expression, text, pcre2_message(found)));
    return true;
}

} // namespace hekla::text
