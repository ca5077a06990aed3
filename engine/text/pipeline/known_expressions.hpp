// Regular expressions of published byte-level tokenizers, with what is known of them.
#pragma once

#include <span>
#include <string_view>

namespace hekla::text {

// A pre-tokenizer: expressions that split in this order.
struct KnownExpressions {
    std::string_view name; // llama.cpp's (tokenizer.ggml.pre); empty: none
    std::span<const std::string_view> expressions;
    bool ignores_merges = false; // whether llama.cpp takes a word that is a token as that, by the name
};

std::span<const KnownExpressions> known_expressions();

// Returns whether no match of an expression continues from a letter or digit to white space, or from a newline to a
// letter or digit, whatever the text before and after is.
bool words_end_at_spaces(std::string_view expression);

} // namespace hekla::text
