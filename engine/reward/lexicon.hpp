// A reward from a list of words with weights.
#pragma once

#include "base/strict_table.hpp"
#include "reward/reward.hpp"

#include <memory>

namespace hekla::reward {

// The sum of the weights of a completion's words, of each word once with `distinct` (with `mean`, their mean). `from`:
// a file with a word and a number on each line, separated by blanks or a comma; lines that begin with "#" are comments.
// Words are runs of letters, digits, apostrophes and bytes above 127, in lower case unless `lower_case` is false.
// Errors name the file and line.
Result<std::unique_ptr<Reward>> make_lexicon(StrictTable& keys);

} // namespace hekla::reward
