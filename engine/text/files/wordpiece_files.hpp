// WordPiece in files: vocab.txt (a token a line, its id the line) and tokenizer.json.
#pragma once

#include "base/file_place.hpp"
#include "text/files/json_file.hpp"
#include "text/wordpiece.hpp"

namespace hekla::text {

// Reads vocab.txt, and do_lower_case, strip_accents and tokenize_chinese_chars from tokenizer_config.json in its
// folder. do_lower_case is true by default, unless some token has a capital letter. Roles that no file sets are those
// of [UNK], [SEP], [PAD], [CLS] and [MASK].
Result<std::unique_ptr<Tokenizer>> read_wordpiece_vocabulary(const FilePlace& path);
// A tokenizer.json whose model is WordPiece, with the BertNormalizer (or none) and the BertPreTokenizer.
Result<std::unique_ptr<Tokenizer>> read_wordpiece_json(const Json& json, const FilePlace& path);

// BERT's names for special tokens, where a role is open and the vocabulary has the token.
Status set_bert_roles(Vocabulary& vocabulary);
// Returns a post_processor for tokenizer.json that puts [CLS] before a text and [SEP] after it; "null" without those
// roles.
std::string bert_template_json(const Vocabulary& vocabulary);
std::string bert_normalizer_json(const BertNormalization& normalization);
// The normalizer of a tokenizer.json: BertNormalizer, or none.
Result<BertNormalization> read_bert_normalizer(const Json& json, const std::string& name);

} // namespace hekla::text
