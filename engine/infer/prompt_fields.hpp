// The input of an encoder for texts: their tokens, with the special tokens around them as in training.
#pragma once

#include "data/batcher.hpp"
#include "infer/model.hpp"

#include <span>
#include <string>
#include <vector>

namespace hekla::infer {

struct SourceRows {
    std::vector<std::vector<int32_t>> ids; // padded to the same length
    Tensors fields;                        // the encoder's other fields: attention_mask, ...
};

// Returns the encoder's input from a batch of an objective. Errors: a field of real numbers.
Result<SourceRows> source_rows(std::span<const data::Field> fields);

// Returns the batch that the seq2seq objective makes of texts, given as token ids, with the layout of training.
Result<std::vector<data::Field>> source_fields(const plugin::Registry& registry, const Model& model,
                                               std::span<const std::vector<int32_t>> texts);

// Returns rows of an encoder-decoder for texts. Errors: a text without tokens; a tokenizer without the special tokens
// of the layout.
Result<SourceRows> source_rows(const plugin::Registry& registry, const Model& model,
                               std::span<const std::string> texts);

} // namespace hekla::infer
