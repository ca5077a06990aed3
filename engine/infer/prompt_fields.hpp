// What an encoder reads of texts: their tokens with what its family puts around them, as it was trained.
#pragma once

#include "data/batcher.hpp"
#include "infer/model.hpp"

#include <span>
#include <string>
#include <vector>

namespace hekla::infer {

struct SourceRows {
    std::vector<std::vector<int32_t>> ids; // equally long, with padding
    Tensors fields;                        // the encoder's others: attention_mask, ...
};

// What the encoder reads of a batch that an objective made. Errors: a field of real numbers.
Result<SourceRows> source_rows(std::span<const data::Field> fields);

// The batch that the objective of sequences from sequences makes of texts, given as token ids, laid out as the model
// was trained.
Result<std::vector<data::Field>> source_fields(const plugin::Registry& registry, const Model& model,
                                               std::span<const std::vector<int32_t>> texts);

// Rows of an encoder-decoder for texts. Errors: a text without a token; a tokenizer without the tokens that must stand
// around it.
Result<SourceRows> source_rows(const plugin::Registry& registry, const Model& model,
                               std::span<const std::string> texts);

} // namespace hekla::infer
