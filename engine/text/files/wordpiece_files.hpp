// WordPiece in files: vocab.txt (a token a line, its id the line) and tokenizer.json.
#pragma once

#include "base/file_place.hpp"
#include "text/files/json_file.hpp"
#include "text/wordpiece.hpp"

namespace hekla::text {

// Reads vocab.txt, and what tokenizer_config.json beside it says (do_lower_case, strip_accents,
// tokenize_chinese_chars). Where nothing says whether capitals become small, they do unless some token has one. Roles
// that no file gives are those of [UNK], [SEP], [PAD], [CLS] and [MASK].
Result<std::unique_ptr<Tokenizer>> read_wordpiece_vocabulary(const FilePlace& path);
// A tokenizer.json whose model is WordPiece, with the BertNormalizer (or none) and the BertPreTokenizer.
Result<std::unique_ptr<Tokenizer>> read_wordpiece_json(const Json& json, const FilePlace& path);

// BERT's names for special tokens, where a role is open and the vocabulary has the token.
Status set_bert_roles(Vocabulary& vocabulary);
// tokenizer.json's post_processor that puts [CLS] before a text and [SEP] behind it; "null" without those roles.
std::string bert_template_json(const Vocabulary& vocabulary);
std::string bert_normalizer_json(const BertNormalization& normalization);
// The normalizer of a tokenizer.json: BertNormalizer, or none.
Result<BertNormalization> read_bert_normalizer(const Json& json, const std::string& name);

} // namespace hekla::text
