// Byte-pair merges (Sennrich et al. 2016, "Neural machine translation of rare words with subword units"): pairs of
// neighboring symbols that become one, in the order in which they were learned.
#pragma once

#include "base/resource_allocator.hpp"
#include "base/status.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace hekla::text {

struct Merge {
    int32_t left = 0;
    int32_t right = 0;
    int32_t result = 0;
    bool operator==(const Merge&) const = default;
};

// A piece of a word: an id, and the number of bytes of the text that it covers.
struct Symbol {
    int32_t id = 0;
    uint32_t size = 0;
};

class Merges {
public:
    Merges() = default;
    // Copies `other` with its tables in this memory, which must outlive the copy.
    Merges(const Merges& other, std::pmr::memory_resource* memory)
        : list_(other.list_, memory), slots_(other.slots_, memory) {}

    // Appends the next merge in rank. Returns false if the pair already has one.
    bool add(const Merge& merge);
    std::span<const Merge> list() const { return list_; }

    // Working memory of apply(), reused so that most words need no allocation.
    struct Scratch {
        struct Link {
            int32_t left;
            int32_t right;
        };
        struct Candidate {    // a pair that may have been merged since
            int32_t position; // of the left symbol
            int32_t left;
            int32_t right;
        };
        struct Candidates { // of one rank
            std::vector<Candidate> list;
            std::size_t next = 0; // the first that is not done
            bool sorted = true;
        };
        std::vector<Link> links;
        std::unordered_map<uint32_t, Candidates> by_rank;
        std::vector<uint32_t> ranks; // a heap of those that have candidates, the lowest first
    };

    // Merges the symbols of one word in place: always the pair of the lowest rank, the leftmost of equal ones. Takes
    // O(n) time where merges make pairs of higher ranks in the order of positions, and O(n log n) elsewhere. Fewer than
    // 2^31 symbols.
    void apply(std::vector<Symbol>& word, Scratch& scratch) const;

private:
    // Pair -> index in list_. A custom open hash table, because most of the encoding time is spent in these lookups,
    // and a std::unordered_map follows one more pointer for each.
    struct Slot {
        uint64_t pair = 0;
        uint32_t rank = kNone;
    };
    static constexpr uint32_t kNone = 0xFFFFFFFFu;
    static uint64_t key(int32_t left, int32_t right) {
        return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
    }
    std::size_t slot_of(uint64_t pair) const { // its slot, or the free slot for it
        std::size_t at = (pair * 0x9E3779B97F4A7C15u >> 32) & (slots_.size() - 1);
        while (slots_[at].rank != kNone && slots_[at].pair != pair) at = (at + 1) & (slots_.size() - 1);
        return at;
    }
    uint32_t rank_of(int32_t left, int32_t right) const { return slots_[slot_of(key(left, right))].rank; }
    void apply_short(std::vector<Symbol>& word) const;

    ResourceVector<Merge> list_;
    ResourceVector<Slot> slots_ = ResourceVector<Slot>(64); // a power of two, at least twice as many as pairs
};

} // namespace hekla::text
