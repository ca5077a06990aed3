// How a language model reads prompts.
#pragma once

#include "infer/open/model.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace hekla::infer {

// How a language model was trained to read prompts.
struct PromptStyle {
    bool both_sides = false;    // a prefix language model: see generate::Request
    std::vector<int32_t> begin; // ids before every prompt: its tokenizer's DocumentFrame::before
};
// Returns the style of a model. Prompts of one that Hekla trained on rows (prompt and completion) before it recorded
// frames begin without those ids, because its objective laid out the rows without them.
Result<PromptStyle> prompt_style(const plugin::Registry& registry, const Model& model);
// Returns the ids of a prompt. The prompt may be empty where the style or the tokenizer has a token to begin with.
Result<std::vector<int32_t>> prompt_ids(const Model& model, const PromptStyle& style, const std::string& prompt);

} // namespace hekla::infer
