#include "text/merges.hpp"

#include <algorithm>
#include <array>
#include <functional>

namespace hekla::text {
namespace {

constexpr std::size_t kShort = 32;

} // namespace

bool Merges::add(const Merge& merge) {
    const uint64_t pair = key(merge.left, merge.right);
    if (slots_[slot_of(pair)].rank != kNone) return false;
    if (2 * (list_.size() + 1) > slots_.size()) {
        ResourceVector<Slot> old(slots_.size() * 2, slots_.get_allocator());
        old.swap(slots_);
        for (const Slot& slot : old)
            if (slot.rank != kNone) slots_[slot_of(slot.pair)] = slot;
    }
    slots_[slot_of(pair)] = {pair, static_cast<uint32_t>(list_.size())};
    list_.push_back(merge);
    return true;
}

// With few symbols, a linear search for the best pair is faster than a heap.
void Merges::apply_short(std::vector<Symbol>& word) const {
    std::array<uint32_t, kShort> ranks{};
    Symbol* const symbols = word.data();
    std::size_t size = word.size();
    for (std::size_t i = 0; i + 1 < size; ++i) ranks[i] = rank_of(symbols[i].id, symbols[i + 1].id);
    while (size > 1) {
        std::size_t best = 0;
        for (std::size_t i = 1; i + 1 < size; ++i)
            if (ranks[i] < ranks[best]) best = i;
        if (ranks[best] == kNone) break;
        symbols[best] = {list_[ranks[best]].result, symbols[best].size + symbols[best + 1].size};
        for (std::size_t i = best + 1; i + 1 < size; ++i) {
            symbols[i] = symbols[i + 1];
            ranks[i - 1] = ranks[i];
        }
        --size;
        if (best > 0) ranks[best - 1] = rank_of(symbols[best - 1].id, symbols[best].id);
        if (best + 1 < size) ranks[best] = rank_of(symbols[best].id, symbols[best + 1].id);
    }
    word.resize(size);
}

void Merges::apply(std::vector<Symbol>& word, Scratch& scratch) const {
    const auto count = static_cast<int32_t>(word.size());
    if (count < 2) return;
    if (word.size() <= kShort) return apply_short(word);
    // A linked list over the symbols; a merged pair uses its left slot, and its right slot gets id -1.
    auto& links = scratch.links;
    links.resize(word.size());
    scratch.by_rank.clear();
    scratch.ranks.clear();
    const auto symbol = [&](int32_t i) -> Symbol& { return word[static_cast<std::size_t>(i)]; };
    const auto link = [&](int32_t i) -> Scratch::Link& { return links[static_cast<std::size_t>(i)]; };
    // Candidates are kept by rank, and in the order of positions, which is mostly that in which they come. Returns the
    // rank.
    const auto offer = [&](int32_t left, int32_t right) {
        if (left < 0 || right < 0) return kNone;
        const uint32_t rank = rank_of(symbol(left).id, symbol(right).id);
        if (rank == kNone) return kNone;
        Scratch::Candidates& same = scratch.by_rank[rank];
        if (same.next == same.list.size()) {
            same.list.clear();
            same.next = 0;
            same.sorted = true;
            scratch.ranks.push_back(rank);
            std::ranges::push_heap(scratch.ranks, std::greater<>());
        } else if (same.list.back().position > left) {
            same.sorted = false;
        }
        same.list.push_back({left, symbol(left).id, symbol(right).id});
        return rank;
    };
    for (int32_t i = 0; i < count; ++i) link(i) = {i - 1, i + 1 < count ? i + 1 : -1};
    for (int32_t i = 0; i + 1 < count; ++i) offer(i, i + 1);
    while (!scratch.ranks.empty()) {
        const uint32_t rank = scratch.ranks.front();
        Scratch::Candidates& same = scratch.by_rank[rank];
        if (same.next == same.list.size()) {
            std::ranges::pop_heap(scratch.ranks, std::greater<>());
            scratch.ranks.pop_back();
            continue;
        }
        if (!same.sorted)
            std::stable_sort(same.list.begin() + static_cast<std::ptrdiff_t>(same.next), same.list.end(),
                             [](const auto& a, const auto& b) { return a.position < b.position; });
        same.sorted = true;
        uint32_t lowest = kNone; // of the pairs that came up
        while (same.next < same.list.size() && lowest > rank && same.sorted) {
            const Scratch::Candidate best = same.list[same.next];
            const int32_t left = best.position, right = link(left).right;
            // The last of a rank is still in the list while it is merged, so that its rank is not added to the heap.
            const bool exists = right >= 0 && symbol(left).id == best.left && symbol(right).id == best.right;
            if (exists) {
                symbol(left) = {list_[rank].result, symbol(left).size + symbol(right).size};
                symbol(right).id = -1;
                link(left).right = link(right).right;
                if (link(right).right >= 0) link(link(right).right).left = left;
                link(right).right = -1;
                lowest = std::min(lowest, offer(link(left).left, left));
                lowest = std::min(lowest, offer(left, link(left).right));
            }
            ++same.next;
        }
    }
    std::size_t kept = 0;
    for (int32_t i = 0; i >= 0; i = link(i).right) word[kept++] = symbol(i);
    word.resize(kept);
}

} // namespace hekla::text
