// `hekla inspect MODEL --attention`: the maps of every head for one text, as a page.
#pragma once

#include "command.hpp"
#include "graph/reference.hpp"
#include "text/tokenizer.hpp"

namespace hekla::app {

struct AttentionArguments {
    std::string model;
    std::string text;   // what the model reads
    std::string target; // what an encoder-decoder has written; "": what the plugin makes of the text
    std::string fields; // or a .safetensors with the model's fields; its first row is shown
    bool reference = false;
};

// A port of attention weights [B, Tq, Tk] or [B, H, Tq, Tk] that a plugin offers itself: recurrent models, whose
// attention is no attention operation.
inline constexpr const char* kAttentionPort = "attention";

// Whether an attention operation (graph::AttentionMap::place) looks from what is written at what was read.
bool looks_at_source(const std::string& place);

// The tokens of [1, T] ids as they are shown; a null tokenizer: their numbers.
std::vector<std::string> token_words(const text::Tokenizer* tokenizer, const graph::Tensor& ids);

Result<std::string> show_attention(const Globals& globals, const AttentionArguments& a);

} // namespace hekla::app
