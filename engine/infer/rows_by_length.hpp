// Rows of different lengths as batches whose rows are equally long.
#pragma once

#include <cstdint>
#include <vector>

namespace hekla::infer {

struct RowLength {
    uint64_t row = 0;
    int64_t length = 0; // that its batch will have
};

// Returns batches, the shortest rows first; rows of one length in the order given. A batch has 1 to `batch` rows.
std::vector<std::vector<RowLength>> batches_by_length(std::vector<RowLength> rows, int64_t batch);

} // namespace hekla::infer
