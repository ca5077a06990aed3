// WordPiece files: vocab.txt (one token per line; its id is the line number) and tokenizer.json.
#pragma once

#include "base/file_place.hpp"
#include "text/files/json_file.hpp"
#include "text/wordpiece.hpp"

namespace hekla::text {

// Reads vocab.txt, and do_lower_case, strip_accents and tokenize_chinese_chars from tokenizer_config.json in its
// folder. do_lower_case is true by default, unless some token has a capital letter. Roles that no file sets are those
// of [UNK], [SEP], [PAD], [CLS] and [MASK].
Result<std::unique_ptr<Tokenizer>> read_wordpiece_vocabulary(const FilePlace& path);

// Sets roles by BERT's names of special tokens, for roles that are not set and tokens in the vocabulary.
Status set_bert_roles(Vocabulary& vocabulary);
// Sets BERT's frame, where the vocabulary has the roles of its tokens.
Status set_bert_frame(Vocabulary& vocabulary);
std::string bert_normalizer_json(const BertNormalization& normalization);

} // namespace hekla::text
