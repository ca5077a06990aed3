// SentencePiece files: the model's own, and tokenizer.json with a Unigram model, or BPE over characters.
#pragma once

#include "base/file_place.hpp"
#include "text/files/json_file.hpp"
#include "text/sentencepiece.hpp"

namespace hekla::text {

// Reads a model's file and the other files of its folder: added tokens and roles; ALBERT's and XLNet's text preparation
// and T5's sentinels, by tokenizer_config.json's tokenizer_class or config.json's model_type.
Result<std::unique_ptr<Tokenizer>> read_spiece_file(const FilePlace& path);

// Reads Marian's source.spm or target.spm, with the folder's vocab.json.
Result<std::unique_ptr<Tokenizer>> read_marian_file(const FilePlace& path);

// Reads tokenizer.json with a Unigram model.
Result<std::unique_ptr<Tokenizer>> read_unigram_json(const Json& json, const FilePlace& path);
// Returns whether a BPE model is SentencePiece's: over characters, with U+2581 for spaces.
bool is_sentencepiece_bpe(const Json& json);
Result<std::unique_ptr<Tokenizer>> read_sentencepiece_bpe_json(const Json& json, const FilePlace& path);

} // namespace hekla::text
