// What the results of a stage of `hekla doctor --lab` decide: sentences with the figures that they follow from.
#pragma once

#include "report/report_file.hpp"

namespace hekla::report {

// Returns the sentences that follow from the last line and those before it.
std::vector<std::string> decisions(const std::vector<Line>& lines);

} // namespace hekla::report
