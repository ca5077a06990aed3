// Keys that a section of a recipe does not have: those of other trainers, and of other sections.
#pragma once

#include <string>
#include <string_view>

namespace hekla::train {

// Returns what is to be written instead of a key, as the end of a message: "; write train.learning_rate". Empty if it
// is not known. section: where the key was written, "" outside of all.
std::string advice_for_foreign_key(std::string_view section, std::string_view key);

} // namespace hekla::train
