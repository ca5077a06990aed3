// Rewards that are computed from the text alone.
#pragma once

#include "base/strict_table.hpp"
#include "reward/reward.hpp"

#include <memory>
#include <optional>
#include <string_view>

namespace hekla::reward {

// 1 where the completion equals the text of a column (`column`, "prompt" for the prompt itself), without blanks around
// it, else 0. With `partial` the share of the characters that agree, position by position, of the longer text.
Result<std::unique_ptr<Reward>> make_exact_match(StrictTable& keys);

// 1 where the expression `pattern` (PCRE2) matches in the completion, or with `whole` all of it, else 0. With `column`,
// what the expression's group found last must be the text of that column.
Result<std::unique_ptr<Reward>> make_regex(StrictTable& keys);

// 1 for a completion of `target` characters (or words: `unit`), less by 1 / target for each one more or less, at least
// 0.
Result<std::unique_ptr<Reward>> make_length(StrictTable& keys);

// 1 where the prompt ends with an expression of integers and "=", such as "37+85=", and the completion is its value,
// else 0. NaN for other prompts.
Result<std::unique_ptr<Reward>> make_arithmetic(StrictTable& keys);

// Returns the value of an expression of integers, + - * / and parentheses; nothing if it is not one, divides by 0,
// has a quotient that is not an integer, or exceeds 63 bits.
std::optional<int64_t> value_of_expression(std::string_view text);

} // namespace hekla::reward
