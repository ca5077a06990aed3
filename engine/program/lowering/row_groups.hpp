// Rows sorted by the matrix that each of them chooses, so that rows with the same matrix are one product.
#pragma once

#include "program/lowering/view.hpp"

#include <cstdint>

namespace hekla::program {

// The sorted rows are in slots, some of them empty: tiles of `height` slots, each of one matrix. All views are int32
// and dense; -1 is none.
struct RowGroups {
    int64_t tiles = 0, height = 0;
    View row_of_slot;    // [tiles * height]
    View slot_of_row;    // [rows]
    View matrix_of_tile; // [tiles]
    View first_slot;     // [matrices + 1]: of each matrix, and the end; no range is empty

    int64_t slots() const { return tiles * height; }
};

} // namespace hekla::program
