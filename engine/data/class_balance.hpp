// An order of examples in which every class occurs equally often, however rare it is: one example of each class per
// round, in a random order for each round. The examples of a class are shuffled again after each pass over them.
#pragma once

#include "data/window_order.hpp"

#include <cstdint>
#include <vector>

namespace hekla::data {

// A class-balanced order. Thread: any, many at once.
class ClassBalance {
public:
    // classes: one per example, at least one; examples with classes below 0 are never drawn. At least one is 0 or more.
    ClassBalance(const std::vector<int32_t>& classes, uint64_t seed);

    // Like WindowOrder::at: begin is the example, epoch the number of completed passes over its class. A pure function
    // of (classes, seed, number).
    Position at(uint64_t number) const;

private:
    std::vector<std::vector<uint64_t>> examples_; // of each class that occurs
    uint64_t seed_ = 0;
};

} // namespace hekla::data
