// tokenizer.json, the file of Hugging Face's tokenizers library. Its description (text/pipeline/pipeline.hpp) is
// executed as it is written; what is not supported is an error that names the component.
#pragma once

#include "base/file_place.hpp"
#include "text/pipeline/pipeline.hpp"
#include "text/tokenizer.hpp"

#include <memory>

namespace hekla::text {

// Reads the file, and roles from the special token files in its folder.
Result<std::unique_ptr<Tokenizer>> read_tokenizer_json(const FilePlace& path);

// Returns a tokenizer that executes a description: the fastest of those that do exactly that.
Result<std::unique_ptr<Tokenizer>> make_tokenizer(std::shared_ptr<const Pipeline> pipeline, Vocabulary vocabulary,
                                                  const WordModelTables& tables);

} // namespace hekla::text
