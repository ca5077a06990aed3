#include "text/merges.hpp"

#include <algorithm>

namespace hekla::text {

bool Merges::add(const Merge& merge) {
    const auto rank = static_cast<uint32_t>(list_.size());
    if (!rank_.emplace(key(merge.left, merge.right), rank).second) return false;
    list_.push_back(merge);
    return true;
}

void Merges::apply(std::vector<Symbol>& word, Scratch& scratch) const {
    const auto count = static_cast<int32_t>(word.size());
    if (count < 2) return;
    // A linked list over the symbols; a merged pair lives on in its left place, and its right place gets id -1.
    auto& places = scratch.places;
    auto& heap = scratch.heap;
    places.resize(word.size());
    heap.clear();
    const auto symbol = [&](int32_t i) -> Symbol& { return word[static_cast<std::size_t>(i)]; };
    const auto place = [&](int32_t i) -> Scratch::Place& { return places[static_cast<std::size_t>(i)]; };
    const auto later = [](const Scratch::Candidate& a, const Scratch::Candidate& b) {
        return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
    };
    const auto offer = [&](int32_t left, int32_t right) {
        if (left < 0 || right < 0) return false;
        const auto rank = rank_.find(key(symbol(left).id, symbol(right).id));
        if (rank == rank_.end()) return false;
        heap.push_back({rank->second, static_cast<uint32_t>(left), symbol(left).id, symbol(right).id});
        return true;
    };
    for (int32_t i = 0; i < count; ++i) place(i) = {i - 1, i + 1 < count ? i + 1 : -1};
    for (int32_t i = 0; i + 1 < count; ++i) offer(i, i + 1);
    if (heap.empty()) return;
    std::make_heap(heap.begin(), heap.end(), later);
    while (!heap.empty()) {
        std::pop_heap(heap.begin(), heap.end(), later);
        const Scratch::Candidate best = heap.back();
        heap.pop_back();
        const auto left = static_cast<int32_t>(best.place);
        const int32_t right = place(left).right;
        // Candidates outlive the pairs they were made for.
        if (right < 0 || symbol(left).id != best.left || symbol(right).id != best.right) continue;
        symbol(left) = {list_[best.rank].result, symbol(left).size + symbol(right).size};
        symbol(right).id = -1;
        place(left).right = place(right).right;
        if (place(right).right >= 0) place(place(right).right).left = left;
        place(right).right = -1;
        if (offer(place(left).left, left)) std::push_heap(heap.begin(), heap.end(), later);
        if (offer(left, place(left).right)) std::push_heap(heap.begin(), heap.end(), later);
    }
    std::size_t kept = 0;
    for (int32_t i = 0; i >= 0; i = place(i).right) word[kept++] = symbol(i);
    word.resize(kept);
}

} // namespace hekla::text
