// The folder that the weights of a model are in.
#pragma once

#include "base/status.hpp"

#include <filesystem>

namespace hekla::infer {

// Returns the folder with a model's weights: the folder itself, or the newest complete checkpoint of an unfinished run.
// Error: not_found, where it is neither.
Result<std::filesystem::path> weights_folder(const std::filesystem::path& folder);

} // namespace hekla::infer
