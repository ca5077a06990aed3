// An order of rows that hold several examples each, made once for a training: examples are shuffled, and within
// stretches of 4,096 they are taken by length, the longest first, and put into the row with the least room that holds
// them (best fit decreasing). Rows are shuffled every epoch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hekla::data {

// The examples of one row.
struct PackedRow {
    uint64_t epoch = 0;
    std::span<const uint32_t> examples; // at least one
};

// Thread: any, many at once.
class PackedRows {
public:
    // lengths: tokens of each example, 1 to `length`, at least one example. length: tokens of a row. most: examples of
    // a row, at least 1.
    PackedRows(std::span<const int64_t> lengths, int64_t length, int64_t most, uint64_t seed);

    uint64_t size() const { return begins_.size() - 1; } // rows of an epoch
    // Returns the row at position `number` of a training. A pure function of the constructor's arguments and the
    // number.
    PackedRow at(uint64_t number) const;
    double fill() const { return fill_; } // share of the rows' tokens that examples have

private:
    std::vector<uint32_t> examples_; // row by row
    std::vector<uint64_t> begins_;   // of each row in examples_, and their end
    uint64_t seed_;
    double fill_ = 0.0;
};

} // namespace hekla::data
