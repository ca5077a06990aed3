// The special tokens around a language model's text (TextFrame) in files: add_bos_token and add_eos_token in
// tokenizer_config.json, and a TemplateProcessing in tokenizer.json's post_processor.
#pragma once

#include "base/file_place.hpp"
#include "text/files/json_file.hpp"
#include "text/vocabulary.hpp"

#include <string>

namespace hekla::text {

// Sets the vocabulary's frame; call it after the roles are set. A template takes precedence, as in the reference; it is
// used if it inserts something other than the classifier token ([CLS]) before a text. Without a template,
// tokenizer_config.json is used; Llama's tokenizer classes add the bos token unless the file disables it.
// post_processor: of tokenizer.json; null if there is none. Errors: a template with a token that it does not define;
// add_bos_token or add_eos_token without that token.
Status read_text_frame(const FilePlace& folder, const Json& post_processor, Vocabulary& vocabulary);

// Returns a post_processor for tokenizer.json with the vocabulary's frame; "null" without one.
std::string text_frame_json(const Vocabulary& vocabulary);

} // namespace hekla::text
