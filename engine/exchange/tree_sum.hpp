// Sums of the parts of a step in an order that does not depend on which rank computes which part:
//
//     T(first, end) = T(first, middle) + T(middle, end),  middle = first + the largest power of two below end - first
//
// with the parts as leaves. A rank adds up the largest nodes of the tree that lie in its range of parts, and the owner
// of an element adds the nodes of all ranks. One rounding to float32 per addition.
#pragma once

#include "base/resource_array.hpp"
#include "base/status.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace hekla::exchange {

// A node of the tree: the parts [first, end).
struct PartRange {
    uint32_t first = 0;
    uint32_t end = 0;
    bool operator==(const PartRange&) const = default;
};

// Returns whether the range is a node of the tree over `parts` parts.
bool is_node(uint32_t parts, PartRange range);
// Returns the largest nodes that together are `range`, in order.
std::vector<PartRange> nodes_of(uint32_t parts, PartRange range);

// Returns the parts of a rank, if all ranks have equal shares, up to one part.
PartRange parts_of_rank(uint32_t parts, int32_t rank, int32_t ranks);
// Returns the parts of each rank. shares: numbers of parts by rank, in order; empty: equal ones.
std::vector<PartRange> parts_by_rank(uint32_t parts, int32_t ranks, std::span<const uint32_t> shares);

// Adds `from` to `to`, with denormal numbers, whatever the mode of the thread.
void add(std::span<float> to, std::span<const float> from);

// Returns the sum of the whole tree over nodes that are sorted and cover all parts; their content is changed, and one
// of them is the result. internal if they do not cover the tree.
struct Node {
    PartRange parts;
    std::span<float> values;
};
Result<std::span<float>> sum_of_tree(uint32_t parts, std::span<const Node> nodes);

// The sums of a rank's parts, as they are computed one after the other.
class PartSums {
public:
    PartSums(uint32_t parts, PartRange own, std::size_t elements) : parts_(parts), own_(own), elements_(elements) {}

    // Begins a step.
    void clear();
    // Returns memory for the gradients of the next part. add_part() must follow, or add_elements() for all of them.
    std::span<float> next_part();
    void add_part();
    // Adds some elements of that part; those of nodes() have their sums then. end_part() must follow.
    void add_elements(std::size_t first, std::size_t count);
    void end_part();
    // Returns the nodes of all parts so far: after the last one nodes_of(own). Without the part of next_part() before
    // its elements were added.
    std::vector<Node> nodes();

private:
    struct Sum {
        PartRange parts;
        ResourceArray<float> values;
    };
    uint32_t parts_;
    PartRange own_;
    std::size_t elements_;
    std::vector<Sum> sums_;
    std::size_t merged_ = 0;                 // of the last part: how many sums it is added to
    std::vector<ResourceArray<float>> free_; // memory of sums that were added to others
};

} // namespace hekla::exchange
