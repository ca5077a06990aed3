// A loop nest over the elements of several tensors of one shape, with as few dimensions as their strides allow.
#pragma once

#include "program/lowering/limits.hpp"
#include "program/lowering/records.hpp"

#include <array>
#include <span>
#include <vector>

namespace hekla::program {

struct Loop {
    std::vector<int64_t> dims;           // outermost first; none of them 1, unless the loop is a single element
    std::vector<graph::Strides> strides; // by operand, in elements

    int rank() const { return static_cast<int>(dims.size()); }
    // Returns whether the operand's elements are contiguous in the loop's order.
    bool linear(std::size_t operand) const;
    // Returns whether the operand is one element for the whole loop.
    bool uniform(std::size_t operand) const;
};

// Makes the loop. All operands have the shape of the first. Dimensions of 1 are dropped; neighbors that are contiguous
// for every operand are merged.
Loop make_loop(std::span<const View> operands);

// Broadcasts the view to `shape` by NumPy's rule: repeated dimensions get stride 0. The shapes fit, because the graph
// was checked.
View broadcast_view(const View& view, const graph::Shape& shape);

// Multiplier and shift for shaders/divide.glsl, in place of a division: exact for numbers below 2^31 (Granlund and
// Montgomery 1994).
struct Divisor {
    uint32_t factor = 0;
    uint32_t shift = 0;
};
Divisor divisor(uint32_t number); // not 0

// Fills the members of a record that describe the dimensions of a loop: those past `dims` are 1, and every dimension
// has its divisor.
void set_dims(std::span<const int64_t> dims, uint32_t (&to)[graph::kMaxRank], uint32_t (&factors)[graph::kMaxRank],
              uint32_t (&shifts)[graph::kMaxRank]);
void set_strides(const graph::Strides& strides, int32_t (&to)[graph::kMaxRank]);

// Return the number of workgroups of an elementwise kernel, of kElementsPerGroup each, and of a row kernel, of
// kRowsPerGroup or, with Limits::uniform_loads, one.
uint64_t elementwise_groups(int64_t elements);
uint64_t row_groups(const Limits& limits, int64_t rows);

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

} // namespace hekla::program
