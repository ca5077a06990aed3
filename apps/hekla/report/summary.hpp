// The lines of a report that people paste into a message or a table.
#pragma once

#include "report/report_file.hpp"

namespace hekla::report {

// Returns "hekla 0.1.0 | NVIDIA H200 | NVIDIA 580.159 | Vulkan 1.4.312 | f32 4/4, f16 4/4 | resume equal | ..."
std::string summary_of(const std::vector<Line>& lines);

} // namespace hekla::report
