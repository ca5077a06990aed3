// Which rank of a training owns which elements of the trained arenas: it keeps their moments, adds up their gradients
// and updates them (ZeRO-1: Rajbhandari and others 2020, stage 1). The arenas are cut into buckets, which are exchanged
// one after the other, and every rank owns a slice of each bucket, so that all ranks send and receive equally much.
#pragma once

#include "program/lowering/parameter_table.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace hekla::program {

// Elements of a chunk, in all arenas. `first` is a multiple of kShardElements.
struct ElementRange {
    uint32_t chunk = 0;
    uint64_t first = 0;
    uint64_t count = 0;
    uint64_t end() const { return first + count; }
};

// The unit of a slice: what the optimizer computes one sum of squares of.
inline constexpr uint64_t kShardElements = 4096;

struct ShardOptions {
    uint32_t rank = 0;
    uint32_t ranks = 1;
    uint64_t bucket_bytes = uint64_t{64} << 20; // of float32 gradients; at least a 32nd of all
};

class Shards {
public:
    Shards(std::span<const StoreChunk> chunks, const ShardOptions& options);

    uint32_t rank() const { return rank_; }
    uint32_t ranks() const { return ranks_; }

    struct Bucket {
        ElementRange range;
        std::vector<ElementRange> slices; // by rank; may be empty
    };
    const std::vector<Bucket>& buckets() const { return buckets_; }
    // Returns the slices of this rank, in order, without empty ones.
    const std::vector<ElementRange>& own() const { return own_; }
    uint64_t own_elements(uint32_t chunk) const; // of its slices in a chunk
    // Returns the part of `range` that this rank owns, in pieces, each within one slice.
    std::vector<ElementRange> own_part(const ElementRange& range) const { return part(range, rank_); }
    std::vector<ElementRange> part(const ElementRange& range, uint32_t rank) const;
    // Returns the first element of an own piece in arenas that have the rank's slices of a chunk only.
    uint64_t place(const ElementRange& own_piece) const;
    // Returns the index of a range's first sum of squares among those of all trained chunks, and their number.
    uint64_t sum_index(const ElementRange& range) const;
    static uint64_t sums_of(const ElementRange& range) { return (range.count + kShardElements - 1) / kShardElements; }
    uint64_t sums() const { return sums_; }         // of all trained chunks
    uint64_t elements() const { return elements_; } // of all trained chunks
    // Returns a range of an array that has the elements of all trained chunks, one chunk after the other.
    std::span<float> in(std::span<float> all, const ElementRange& range) const;

private:
    uint32_t rank_;
    uint32_t ranks_;
    uint64_t sums_ = 0;
    uint64_t elements_ = 0;
    std::vector<uint64_t> first_sum_;     // by chunk
    std::vector<uint64_t> first_element_; // by chunk, among those of all trained chunks
    std::vector<Bucket> buckets_;
    std::vector<ElementRange> own_;
};

} // namespace hekla::program
