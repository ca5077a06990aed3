// Groups rows of different lengths into batches of one length.
#pragma once

#include <cstdint>
#include <vector>

namespace hekla::batch {

struct RowLength {
    uint64_t row = 0;
    int64_t length = 0; // of its batch
};

// Returns batches, shortest first; rows of one length keep their order. A batch has 1 to `batch` rows.
std::vector<std::vector<RowLength>> batches_by_length(std::vector<RowLength> rows, int64_t batch);

} // namespace hekla::batch
