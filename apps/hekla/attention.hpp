// `hekla inspect MODEL --attention`: an HTML page with the attention maps of every head for one text.
#pragma once

#include "command.hpp"
#include "graph/reference.hpp"
#include "text/tokenizer.hpp"

namespace hekla::app {

struct AttentionArguments {
    std::string model;
    std::string text;   // what the model reads
    std::string target; // the decoder's text; "": what the model writes
    std::string fields; // a .safetensors file with the model's fields, instead of text; its first row is shown
    bool reference = false;
};

// The label of the position after the last token.
inline constexpr const char* kEnd = "(end)";

// Ids as a field [1, T].
graph::Tensor row_of(const std::vector<int32_t>& ids);

// Returns the tokens of [1, T] ids as text; without a tokenizer their numbers.
std::vector<std::string> token_words(const text::Tokenizer* tokenizer, const graph::Tensor& ids);

Result<std::string> show_attention(const Globals& globals, const AttentionArguments& a);

} // namespace hekla::app
