#include "batch/rows_by_length.hpp"

#include <algorithm>

namespace hekla::batch {

std::vector<std::vector<RowLength>> batches_by_length(std::vector<RowLength> rows, int64_t batch) {
    std::ranges::stable_sort(rows, {}, &RowLength::length);
    std::vector<std::vector<RowLength>> batches;
    for (const RowLength& row : rows) {
        const bool joins = !batches.empty() && batches.back().front().length == row.length &&
                           batches.back().size() < static_cast<std::size_t>(batch);
        if (!joins) batches.emplace_back();
        batches.back().push_back(row);
    }
    return batches;
}

} // namespace hekla::batch
