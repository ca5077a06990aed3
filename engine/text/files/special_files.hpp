// tokenizer_config.json, special_tokens_map.json and added_tokens.json: which tokens are special, and what for.
#pragma once

#include "base/file_place.hpp"
#include "base/status.hpp"
#include "text/vocabulary.hpp"

#include <filesystem>
#include <string>

namespace hekla::text {

// Reads those of the three files that `folder` has into `vocabulary`. A role's token that the vocabulary lacks is added
// after its ids, as in Hugging Face. tokenizer_config.json takes precedence over special_tokens_map.json.
Status read_special_files(const FilePlace& folder, Vocabulary& vocabulary);

// Returns the family of a folder's tokenizer, as in Hugging Face's class names ("T5", "Albert", "Bert"): by
// tokenizer_config.json's tokenizer_class, or else by config.json's model_type; empty where neither names one.
Result<std::string> tokenizer_family(const FilePlace& folder);

// tokenizer_config.json's add_prefix_space; false where the file or the key is absent.
Result<bool> read_add_prefix_space(const FilePlace& folder);

// Writes tokenizer_config.json and special_tokens_map.json. `members` is JSON to put in front of the former's roles.
Status write_special_files(const std::filesystem::path& folder, const Vocabulary& vocabulary,
                           const std::string& members);

} // namespace hekla::text
