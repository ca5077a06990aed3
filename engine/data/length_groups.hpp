// An order of examples in which the examples of a batch have similar lengths: shuffled every epoch, sorted by length
// within groups of 50 batches, and the batches of a group shuffled again.
#pragma once

#include "data/window_order.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace hekla::data {

// An order by length. Thread: any, many at once.
class LengthGroups {
public:
    // lengths: one per example, at least one. batch > 0.
    LengthGroups(std::vector<int64_t> lengths, uint64_t batch, uint64_t seed);
    ~LengthGroups();

    // Like WindowOrder::at: begin is the example. A pure function of (lengths, batch, seed, number).
    Position at(uint64_t number) const;

private:
    std::vector<uint32_t> order_of(uint64_t epoch) const;
    std::vector<int64_t> lengths_;
    uint64_t batch_, seed_;
    mutable std::mutex lock_;
    mutable std::map<uint64_t, std::shared_ptr<const std::vector<uint32_t>>> epochs_; // the most recently used
};

} // namespace hekla::data
