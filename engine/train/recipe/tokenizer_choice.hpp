// The tokenizer that a recipe trains, with the special tokens that its objective needs.
#pragma once

#include "text/tokenizer_trainer.hpp"
#include "train/recipe/recipe.hpp"

#include <memory>
#include <span>
#include <string_view>

namespace hekla::train {

// Returns a trainer; section.kind must be a kind that is trained. roles: from the objective's manifest ("mask",
// "sentinel", ...); each kind uses the names of its family's models.
std::unique_ptr<text::TokenizerTrainer> tokenizer_trainer(const TokenizerSection& section,
                                                          std::span<const std::string_view> roles);

// Returns the tokenizer, which a run has trained, with the frame of the published models of its architecture.
Result<std::unique_ptr<text::Tokenizer>> with_frame_of(const std::string& architecture,
                                                       std::unique_ptr<text::Tokenizer> tokenizer);

// Returns the folder or file that a recipe reads its tokenizer from: tokenizer.from, else model.from, else
// teacher.from; empty if there is none, or if it trains one.
std::string tokenizer_folder(const Recipe& recipe);

// Returns the tokenizer with the tokens that a recipe adds. Errors: an unknown role.
Result<std::unique_ptr<text::Tokenizer>> with_added_tokens(std::unique_ptr<text::Tokenizer> tokenizer,
                                                           const TokenizerSection& section);

} // namespace hekla::train
