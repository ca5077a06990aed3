// The tokenizer that a recipe asks to be trained, with the special tokens that its objective needs.
#pragma once

#include "text/tokenizer_trainer.hpp"
#include "train/recipe.hpp"

#include <memory>
#include <span>
#include <string_view>

namespace hekla::train {

// section.kind is one that is trained. roles: of the objective's manifest ("mask", "sentinel", ...); each kind has the
// names for them that its family's models use.
std::unique_ptr<text::TokenizerTrainer> tokenizer_trainer(const TokenizerSection& section,
                                                          std::span<const std::string_view> roles);

// The tokenizer with what a recipe adds to it. Errors: a role that there is not.
Result<std::unique_ptr<text::Tokenizer>> with_added_tokens(std::unique_ptr<text::Tokenizer> tokenizer,
                                                           const TokenizerSection& section);

} // namespace hekla::train
