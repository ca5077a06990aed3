// tokenizer_config.json, special_tokens_map.json and added_tokens.json: special tokens and their roles.
#pragma once

#include "base/file_place.hpp"
#include "base/status.hpp"
#include "text/vocabulary.hpp"

#include <filesystem>
#include <string>

namespace hekla::text {

// Reads those of the three files that exist in `folder` into `vocabulary`. A role's token that is not in the vocabulary
// is added after its ids, as in Hugging Face. tokenizer_config.json takes precedence over special_tokens_map.json.
Status read_special_files(const FilePlace& folder, Vocabulary& vocabulary);

// Returns the family of a folder's tokenizer, as in Hugging Face's class names ("T5", "Albert", "Bert"): by
// tokenizer_config.json's tokenizer_class, or else by config.json's model_type; empty if neither is set.
Result<std::string> tokenizer_family(const FilePlace& folder);

// Reads tokenizer_config.json's add_prefix_space; false if the file or the key does not exist.
Result<bool> read_add_prefix_space(const FilePlace& folder);

// Writes tokenizer_config.json and special_tokens_map.json. `members` is JSON to insert before the former's roles.
Status write_special_files(const std::filesystem::path& folder, const Vocabulary& vocabulary,
                           const std::string& members);

} // namespace hekla::text
