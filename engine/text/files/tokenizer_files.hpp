// Loads a tokenizer from the files of its folder, on disk or in memory.
#pragma once

#include "base/file_place.hpp"
#include "text/tokenizer.hpp"

#include <vector>

namespace hekla::text {

// Like load_tokenizer() for a path.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const FilePlace& place);

// Returns the names of the files of a folder that load_tokenizer() may read, sorted.
std::vector<std::string> tokenizer_files_in(const FilePlace& folder);

} // namespace hekla::text
