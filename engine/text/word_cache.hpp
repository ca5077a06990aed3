// A cache of encoded words, since most words of a text occur again.
#pragma once

#include "base/hash.hpp"

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::text {

// A cache from words to their symbols (plain values). It has a custom hash table because a std::unordered_map allocates
// for every word; here words and symbols are each appended to one buffer. `hash` is hash64() of the word, which takes 6
// ns of the approximately 200 that encoding a word takes (tiny Shakespeare; a custom hash took 5). Thread: one at a
// time.
template<class Symbol>
class WordCache {
public:
    WordCache() : slots_(256) {}

    // Returns the symbols of a word that was added; data() is null for any other.
    std::span<const Symbol> find(std::string_view word, uint64_t hash) const {
        for (std::size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
            const Slot& slot = slots_[at];
            if (slot.count == 0) return {};
            if (slot.hash == hash && slot.size == word.size() &&
                std::memcmp(texts_.data() + slot.text, word.data(), word.size()) == 0)
                return {symbols_.data() + slot.first, slot.count};
        }
    }

    // Adds a word that is not in the cache. Words without symbols, and words after the cache is full, are not added.
    void add(std::string_view word, uint64_t hash, std::span<const Symbol> symbols) {
        if (symbols.empty() || word.size() > kLongest || texts_.size() > kMostBytes) return;
        if (2 * (used_ + 1) > slots_.size()) grow();
        place({hash, texts_.size(), symbols_.size(), static_cast<uint32_t>(word.size()),
               static_cast<uint32_t>(symbols.size())});
        ++used_;
        texts_.append(word);
        symbols_.insert(symbols_.end(), symbols.begin(), symbols.end());
    }

private:
    static constexpr std::size_t kLongest = 256;
    static constexpr std::size_t kMostBytes = std::size_t{16} << 20;
    struct Slot {
        uint64_t hash = 0;
        std::size_t text = 0;
        std::size_t first = 0;
        uint32_t size = 0;
        uint32_t count = 0; // of symbols; 0: a free slot
    };
    void place(const Slot& slot) {
        std::size_t at = slot.hash & (slots_.size() - 1);
        while (slots_[at].count != 0) at = (at + 1) & (slots_.size() - 1);
        slots_[at] = slot;
    }
    void grow() {
        std::vector<Slot> old(slots_.size() * 4);
        old.swap(slots_);
        for (const Slot& slot : old)
            if (slot.count != 0) place(slot);
    }
    std::vector<Slot> slots_; // a power of two
    std::size_t used_ = 0;
    std::string texts_;
    std::vector<Symbol> symbols_;
};

} // namespace hekla::text
