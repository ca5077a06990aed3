// tokenizer.json, the file of Hugging Face's tokenizers library. Supported here: BPE with the ByteLevel pre-tokenizer
// (alone, or after a Split by an expression), and the character tokenizer (WordLevel, split into single characters).
// Anything unsupported in a file is an error that names it.
#pragma once

#include "base/file_place.hpp"
#include "text/byte_bpe.hpp"

#include <memory>
#include <string>

namespace hekla::text {

// Reads the file, and roles from the special token files in its folder.
Result<std::unique_ptr<Tokenizer>> read_tokenizer_json(const FilePlace& path);

std::string byte_bpe_json(const ByteBpe& bpe);

} // namespace hekla::text
