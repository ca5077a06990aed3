// A chat template as Ollama's TEMPLATE, which is in the language of Go's text/template.
// Source: https://docs.ollama.com/modelfile
#pragma once

#include "base/status.hpp"
#include "text/chat_template.hpp"

#include <string>

namespace hekla::app {

struct OllamaTemplate {
    std::string text;     // for TEMPLATE """..."""
    std::string turn_end; // what follows an answer, without white space around it; may be empty
};

// Returns a template with the same text for conversations of a user and an assistant, and with a system's message
// before them if the chat template writes one. begins_text: the program adds the token that begins a text, so that the
// template leaves it out. Errors: unsupported if the text of a turn depends on more than its role and what is before
// it; those of rendering.
Result<OllamaTemplate> ollama_template(const text::ChatTemplate& chat, const text::Vocabulary& tokens,
                                       bool begins_text);

} // namespace hekla::app
