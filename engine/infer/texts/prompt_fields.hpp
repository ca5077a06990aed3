// The input of an encoder for texts: their tokens, with the special tokens around them as in training.
#pragma once

#include "data/batcher.hpp"
#include "infer/open/model.hpp"
#include "infer/texts/source_rows.hpp"

#include <span>
#include <string>
#include <vector>

namespace hekla::infer {

// Returns the batch that the seq2seq objective makes of texts, given as token ids, laid out as in training.
Result<std::vector<data::Field>> source_fields(const plugin::Registry& registry, const Model& model,
                                               std::span<const std::vector<int32_t>> texts);

// Returns rows of an encoder-decoder for texts. Errors: a text without tokens; a tokenizer without the special tokens
// of the layout.
Result<SourceRows> source_rows(const plugin::Registry& registry, const Model& model,
                               std::span<const std::string> texts);

// Returns the ids of the same rows, without padding. Also unsupported: an encoder that reads more than ids and a mask.
Result<std::vector<std::vector<int32_t>>> source_ids(const plugin::Registry& registry, const Model& model,
                                                     std::span<const std::string> texts);

} // namespace hekla::infer
