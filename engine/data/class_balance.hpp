// An order of examples in which every class occurs equally often, however rare it is: classes take turns, in an order
// that is drawn for each round. Each class goes through its own examples, which are shuffled again after each pass.
#pragma once

#include "data/window_order.hpp"

#include <cstdint>
#include <vector>

namespace hekla::data {

// Thread: any, many at once.
class ClassBalance {
public:
    // classes: one per example, at least one; those below 0 are never drawn. At least one is 0 or more.
    ClassBalance(const std::vector<int32_t>& classes, uint64_t seed);

    // As WindowOrder::at: begin is the example, epoch the number of completed passes over its class. A pure function
    // of (classes, seed, number).
    Position at(uint64_t number) const;

private:
    std::vector<std::vector<uint64_t>> examples_; // of each class that occurs
    uint64_t seed_ = 0;
};

} // namespace hekla::data
