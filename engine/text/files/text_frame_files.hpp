// The special tokens around a language model's text (TextFrame), as files have them: add_bos_token and add_eos_token in
// tokenizer_config.json, and a TemplateProcessing in tokenizer.json's post_processor.
#pragma once

#include "base/file_place.hpp"
#include "text/files/json_file.hpp"
#include "text/vocabulary.hpp"

#include <string>

namespace hekla::text {

// Sets the vocabulary's frame; call it when the roles are set. A template decides, as in the reference; it counts where
// it puts something other than the classifier token ([CLS]) before a text. Without a template tokenizer_config.json
// decides; Llama's tokenizer classes add the bos token unless the file denies it. post_processor: of tokenizer.json;
// null where there is none. Errors: a template with a token that it does not define; add_bos_token or add_eos_token
// without that token.
Status read_text_frame(const FilePlace& folder, const Json& post_processor, Vocabulary& vocabulary);

// A post_processor for tokenizer.json with the vocabulary's frame; "null" without one.
std::string text_frame_json(const Vocabulary& vocabulary);

} // namespace hekla::text
