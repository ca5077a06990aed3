// Where two texts differ, line by line.
#pragma once

#include <functional>
#include <string>

namespace hekla {

// "- old line" and "+ new line" in their order, from a longest common subsequence of lines; empty where they are the
// same. Texts of more than 4,000 lines are compared from both ends alone, and what stands between is given as a whole.
// key: what of a line counts; none: all of it.
using LineKey = std::function<std::string(const std::string& line)>;
std::string line_difference(const std::string& before, const std::string& after, const LineKey& key = {});

} // namespace hekla
