// Rows that an encoder reads.
#pragma once

#include "base/status.hpp"
#include "data/batcher.hpp"
#include "infer/open/tensors.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace hekla::infer {

struct SourceRows {
    std::vector<std::vector<int32_t>> ids; // equally long, with padding
    Tensors fields;                        // the encoder's others: attention_mask, ...
};

// Returns what the encoder reads of a batch that an objective made. Errors: a field of real numbers.
Result<SourceRows> source_rows(std::span<const data::Field> fields);

} // namespace hekla::infer
