// Rows of different lengths as batches whose rows are equally long.
#pragma once

#include <cstdint>
#include <vector>

namespace hekla::infer {

struct RowLength {
    uint64_t row = 0;
    int64_t length = 0; // that its batch will have
};

// The shortest first; rows of one length in the order given. A batch has at least one row and at most `batch`.
std::vector<std::vector<RowLength>> batches_by_length(std::vector<RowLength> rows, int64_t batch);

} // namespace hekla::infer
