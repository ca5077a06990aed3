// The page of a run with rollouts: texts before and after training.
#pragma once

#include "base/status.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace hekla::train {

struct SampleText {
    std::string prompt, completion;
    double score = 0.0; // NaN: none
};

// Adds texts of step 0, or of the last step, to FOLDER/samples.jsonl, and writes FOLDER/texts.html, which shows both.
// Texts of other steps after the first are replaced.
Status add_samples(const std::filesystem::path& folder, int64_t step, const std::vector<SampleText>& samples);

} // namespace hekla::train
