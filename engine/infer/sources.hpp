// What an encoder reads of texts: their tokens with what its family puts around them, as it was trained.
#pragma once

#include "infer/model.hpp"

#include <span>
#include <string>
#include <vector>

namespace hekla::infer {

struct SourceRows {
    std::vector<std::vector<int32_t>> ids; // equally long, with padding
    Tensors fields;                        // the encoder's others: attention_mask, ...
};

// Rows of an encoder-decoder. Errors: a text without a token; a tokenizer without the tokens that must stand around it.
Result<SourceRows> source_rows(const plugin::Registry& registry, const Model& model,
                               std::span<const std::string> texts);

} // namespace hekla::infer
