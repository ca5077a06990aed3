// The special tokens around texts (TextFrame) in files: tokenizer.json's post_processor, and without one the class, and
// add_bos_token and add_eos_token, of tokenizer_config.json.
#pragma once

#include "base/file_place.hpp"
#include "text/files/json_file.hpp"
#include "text/vocabulary.hpp"

#include <string>

namespace hekla::text {

// Sets the vocabulary's frame; call it after the roles are set. A post-processor takes precedence, as in the reference.
// Without one the tokenizer's class decides (T5, BERT, XLNet, ...); without a tokenizer.json also add_bos_token and
// add_eos_token, and Llama's tokenizer classes add the bos token unless the file disables it. post_processor: of
// tokenizer.json; null if there is none. Errors: a template with a token that it does not define; add_bos_token or
// add_eos_token without that token.
Status read_text_frame(const FilePlace& folder, const Json& post_processor, Vocabulary& vocabulary);

// Returns a post_processor for tokenizer.json with the vocabulary's frame; "null" without one.
std::string text_frame_json(const Vocabulary& vocabulary);

} // namespace hekla::text
