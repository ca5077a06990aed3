// GPT-2's own two files: the vocabulary (vocab.json, also encoder.json) and the merges (merges.txt, also vocab.bpe).
#pragma once

#include "base/file_place.hpp"
#include "text/byte_bpe.hpp"

#include <functional>
#include <string>

namespace hekla::text {

// Builds a BPE tokenizer; shared with tokenizer.json, which also contains vocabulary and merges.
class BpeBuilder {
public:
    // `name` is the file's name in messages.
    Status add_token(const std::string& token, int32_t id, const std::string& name);
    Status add_merge(std::string_view left, std::string_view right, const std::string& place);
    Vocabulary vocabulary;
    Merges merges;
    // Returns the bytes that a token adds to a text; empty: those of the byte alphabet.
    std::function<std::string(const std::string& token)> bytes_of;

private:
    ByteAlphabet alphabet_;
};

// Reads the two files, and the special token files in the folder of the first. If no file defines special tokens, they
// are those of GPT-2, RoBERTa and DeBERTa: "<|endoftext|>", or "<s>" etc., or "[CLS]" etc.
Result<std::unique_ptr<Tokenizer>> read_gpt2_files(const FilePlace& vocabulary, const FilePlace& merges);

// Reads only the two files.
Result<BpeBuilder> read_bpe_files(const FilePlace& vocabulary, const FilePlace& merges,
                                  std::function<std::string(const std::string& token)> bytes_of = {});

// Return the contents of the two files. Added tokens are part of the vocabulary, as in GPT-2's.
std::string gpt2_vocabulary_json(const ByteBpe& bpe);
std::string gpt2_merges_text(const ByteBpe& bpe);

} // namespace hekla::text
