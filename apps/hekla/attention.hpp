// `hekla inspect MODEL --attention`: the maps of every head for one text, as a page.
#pragma once

#include "command.hpp"
#include "graph/reference.hpp"
#include "text/tokenizer.hpp"

namespace hekla::app {

struct AttentionArguments {
    std::string model;
    std::string text;   // what the model reads
    std::string target; // what an encoder-decoder has written; "": what it writes
    std::string fields; // or a .safetensors with the model's fields; its first row is shown
    bool reference = false;
};

// What stands for the end of what was written.
inline constexpr const char* kEnd = "(end)";

// Ids as a field [1, T].
graph::Tensor row_of(const std::vector<int32_t>& ids);

// The tokens of [1, T] ids as they are shown; a null tokenizer: their numbers.
std::vector<std::string> token_words(const text::Tokenizer* tokenizer, const graph::Tensor& ids);

Result<std::string> show_attention(const Globals& globals, const AttentionArguments& a);

} // namespace hekla::app
