// GPT-2's own two files: the vocabulary (vocab.json, also encoder.json) and the merges (merges.txt, also vocab.bpe).
#pragma once

#include "base/file_place.hpp"
#include "text/byte_bpe.hpp"

#include <functional>
#include <string>

namespace hekla::text {

// Shared with tokenizer.json, which holds the same two things.
class BpeBuilder {
public:
    // `name` is what messages call the file.
    Status add_token(const std::string& token, int32_t id, const std::string& name);
    Status add_merge(std::string_view left, std::string_view right, const std::string& place);
    Vocabulary vocabulary;
    Merges merges;
    // What a token adds to a text; left empty, its bytes in the byte alphabet.
    std::function<std::string(const std::string& token)> bytes_of;

private:
    ByteAlphabet alphabet_;
};

// Reads the two files, and the special token files beside the first. Where nothing says what is special,
// it is what GPT-2, RoBERTa and DeBERTa have: "<|endoftext|>", or "<s>" with its like, or "[CLS]" with its.
Result<std::unique_ptr<Tokenizer>> read_gpt2_files(const FilePlace& vocabulary, const FilePlace& merges);

// The two files alone.
Result<BpeBuilder> read_bpe_files(const FilePlace& vocabulary, const FilePlace& merges,
                                  std::function<std::string(const std::string& token)> bytes_of = {});

// The contents of the two files. Added tokens are part of the vocabulary, as in GPT-2's.
std::string gpt2_vocabulary_json(const ByteBpe& bpe);
std::string gpt2_merges_text(const ByteBpe& bpe);

} // namespace hekla::text
