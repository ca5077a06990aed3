// The stages of `hekla doctor --test`: about a minute on a GPU.
#pragma once

#include "stages.hpp"

namespace hekla::app {

std::span<const Stage> test_stages();

// Each is defined in its own file.
Result<StageOutcome> fixtures_stage(const StageInput& input);   // fixture_stage.cpp
Result<StageOutcome> training_stage(const StageInput& input);   // training_stage.cpp
Result<StageOutcome> generation_stage(const StageInput& input); // generation_stage.cpp
Result<StageOutcome> plan_stage(const StageInput& input);       // plan_stage.cpp

// Returns the folder with the fixtures that are installed with the program. Error: not_found.
Result<std::filesystem::path> packed_fixtures();

} // namespace hekla::app
