// The stages of `hekla doctor --lab`: at most eight minutes.
#pragma once

#include "stages.hpp"

namespace hekla::app {

std::span<const Stage> lab_stages();

// Each is defined in its own file; lab/lab.hpp has the others.
Result<StageOutcome> rows_stage(const StageInput& input);   // cases_stage.cpp
Result<StageOutcome> cases_stage(const StageInput& input);  // cases_stage.cpp
Result<StageOutcome> others_stage(const StageInput& input); // others_stage.cpp

} // namespace hekla::app
