// The files of a model's folder that are copied when the model is saved elsewhere: tokenizer, preprocessing and
// generation files of Hugging Face folders.
#pragma once

#include "base/status.hpp"

#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace hekla::model {

// Largest auxiliary file that is copied through a symbolic link, in bytes.
inline constexpr uint64_t kAuxiliarySizeLimit = 256'000'000;

// Returns the paths of those that exist in `folder`, by name. Links are followed.
std::vector<std::filesystem::path> auxiliary_files_in(const std::filesystem::path& folder);

// Checks a file before it is copied from a model's folder. Caches of Hugging Face contain links into another folder, so
// links are followed; but a folder from elsewhere may contain vocab.txt -> /etc/shadow, and the copy would publish it.
// The target of a link must therefore match its name: a JSON object, a vocabulary with an unknown token, merges, a
// SentencePiece model, a template. A file that is not a link passes. Errors: corrupt, with the link's target.
Status check_auxiliary(const std::filesystem::path& file, std::string_view content);

} // namespace hekla::model
