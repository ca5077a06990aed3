// What another rank than 0 begins a training with.
#pragma once

#include "base/temporary_folder.hpp"
#include "text/text_encoder.hpp"
#include "train/recipe/recipe.hpp"

namespace hekla::train {

struct RankStart {
    Recipe recipe; // resolved
    TemporaryFolder tokenizer;
    text::TextRules text_rules;
    double held_out = 0.0;
};

} // namespace hekla::train
