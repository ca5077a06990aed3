// Members of tokenizer_config.json that the ids of a text do not depend on: the side of padding, lengths, the inputs of
// a model. transformers reads them.
#pragma once

#include "base/file_place.hpp"
#include "base/status.hpp"

#include <filesystem>

namespace hekla::text {

// Adds to the tokenizer_config.json of a folder in which a tokenizer was saved what the folder or file that it was read
// from has of them, or what its class had as a default, where it is saved under another class.
Status keep_tokenizer_settings(const FilePlace& from, const std::filesystem::path& saved);

// Adds the inputs of a model that reads token types, which not every class returns.
Status write_token_types(const std::filesystem::path& saved);

} // namespace hekla::text
