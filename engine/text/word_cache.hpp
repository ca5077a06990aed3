// Words that were cut into tokens already: most words of a text come again.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::text {

// Short texts, mostly of 1 to 16 bytes; nothing is kept of the value between runs.
inline uint64_t quick_hash(std::string_view text) {
    constexpr uint64_t kFirst = 0x9E3779B97F4A7C15u, kSecond = 0xD6E8FEB86659FD93u;
    const auto load = [](const char* from, std::size_t bytes) {
        uint64_t value = 0;
        std::memcpy(&value, from, bytes);
        return value;
    };
    const auto mix = [](uint64_t a, uint64_t b) {
        const auto product = static_cast<unsigned __int128>(a) * b;
        return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    };
    const char* at = text.data();
    std::size_t left = text.size();
    uint64_t hash = text.size() * kFirst;
    for (; left > 8; at += 8, left -= 8) hash = mix(hash ^ load(at, 8), kSecond);
    uint64_t last = 0;
    if (left >= 4) {
        last = load(at, 4) | load(at + left - 4, 4) << 32;
    } else if (left > 0) {
        const auto byte = [&](std::size_t i) { return uint64_t{static_cast<unsigned char>(at[i])}; };
        last = byte(0) | byte(left / 2) << 8 | byte(left - 1) << 16;
    }
    return mix(hash ^ last ^ kSecond, kFirst);
}

// What a word became, as any plain values. Thread: one at a time.
template<class Symbol>
class WordCache {
public:
    WordCache() : slots_(256) {}

    // The symbols of a word that was added; data() is null for one that was not.
    std::span<const Symbol> find(std::string_view word, uint64_t hash) const {
        for (std::size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
            const Slot& slot = slots_[at];
            if (slot.count == 0) return {};
            if (slot.hash == hash && slot.size == word.size() &&
                std::memcmp(texts_.data() + slot.text, word.data(), word.size()) == 0)
                return {symbols_.data() + slot.first, slot.count};
        }
    }

    // Adds a word that is not there. It is left out if it has no symbols, or when the cache has grown too large.
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
        uint32_t count = 0; // 0: free
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
