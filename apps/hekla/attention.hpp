// `hekla inspect MODEL --attention`: the maps of every head for one text, as a page.
#pragma once

#include "command.hpp"

namespace hekla::app {

struct AttentionArguments {
    std::string model;
    std::string text;   // what the model reads
    std::string target; // what an encoder-decoder has written; "": what the plugin makes of the text
    std::string fields; // or a .safetensors with the model's fields; its first row is shown
    bool reference = false;
};

Result<std::string> show_attention(const Globals& globals, const AttentionArguments& a);

} // namespace hekla::app
