// GPT-2's own two files: the vocabulary (vocab.json, also encoder.json) and the merges (merges.txt, also vocab.bpe).
#pragma once

#include "base/file_place.hpp"
#include "text/byte_bpe.hpp"
#include "text/files/bpe_builder.hpp"

#include <functional>
#include <string>

namespace hekla::text {

// Reads the two files, and the special token files in the folder of the first. Where no file names special tokens, they
// are those of GPT-2, RoBERTa and DeBERTa: "<|endoftext|>", or "<s>" and its like, or "[CLS]" and its like.
Result<std::unique_ptr<Tokenizer>> read_gpt2_files(const FilePlace& vocabulary, const FilePlace& merges);

// Reads only the two files.
Result<BpeBuilder> read_bpe_files(const FilePlace& vocabulary, const FilePlace& merges,
                                  std::function<std::string(const std::string& token)> bytes_of = {});

// Return the contents of the two files. Added tokens are part of the vocabulary, as in GPT-2's.
std::string gpt2_vocabulary_json(const ByteBpe& bpe);
std::string gpt2_merges_text(const ByteBpe& bpe);

} // namespace hekla::text
