// Line-by-line difference of two texts.
#pragma once

#include <functional>
#include <string>

namespace hekla {

// Returns "- old line" and "+ new line" in order, from a longest common subsequence of lines; empty if the texts are
// equal. Texts of more than 4,000 lines are compared from both ends only, and everything between counts as changed.
// key: returns the part of a line to compare; null: the whole line.
using LineKey = std::function<std::string(const std::string& line)>;
std::string line_difference(const std::string& before, const std::string& after, const LineKey& key = {});

} // namespace hekla
