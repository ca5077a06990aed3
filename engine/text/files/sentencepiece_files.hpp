// Files of SentencePiece models.
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

// Sets roles by the names of a family's tokens, where no file defines them.
Status set_family_roles(const FilePlace& folder, Vocabulary& vocabulary);

} // namespace hekla::text
