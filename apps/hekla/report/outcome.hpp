// What a stage of a report finds.
#pragma once

#include "report/report_file.hpp"

#include <string>

namespace hekla::report {

// A stage that cannot be run returns an error in place of it.
struct Outcome {
    Line result = Line::object();
    std::string text;    // one line for people
    std::string problem; // what is wrong with the device, in one sentence; empty: its results are right
};

} // namespace hekla::report
