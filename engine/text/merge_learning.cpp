#include "text/merge_learning.hpp"

#include <algorithm>
#include <unordered_map>

namespace hekla::text {
namespace {

uint64_t pair_key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

struct Pair {
    int64_t count = 0;
    std::vector<uint32_t> words; // that have, or once had, the pair; in the order found, may repeat
};

struct Candidate {
    int64_t count;
    uint64_t pair;
    // For a heap whose top is the largest count, then the smallest pair.
    bool operator<(const Candidate& other) const {
        return count != other.count ? count < other.count : pair > other.pair;
    }
};

// Joins every occurrence of the pair, from the left.
void merge_word(std::vector<int32_t>& symbols, const Merge& merge) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
        if (i + 1 < symbols.size() && symbols[i] == merge.left && symbols[i + 1] == merge.right) {
            symbols[kept++] = merge.result;
            ++i;
        } else {
            symbols[kept++] = symbols[i];
        }
    }
    symbols.resize(kept);
}

} // namespace

LearnedMerges learn_merges(std::vector<std::string> alphabet, std::vector<CountedWord> words, std::size_t target,
                           uint64_t min_frequency) {
    LearnedMerges learned;
    learned.symbols = std::move(alphabet);
    std::unordered_map<std::string, int32_t> ids;
    for (std::size_t i = 0; i < learned.symbols.size(); ++i) ids.emplace(learned.symbols[i], static_cast<int32_t>(i));

    std::unordered_map<uint64_t, Pair> pairs;
    for (std::size_t w = 0; w < words.size(); ++w) {
        const std::vector<int32_t>& symbols = words[w].symbols;
        for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
            Pair& pair = pairs[pair_key(symbols[i], symbols[i + 1])];
            pair.count += static_cast<int64_t>(words[w].count);
            if (pair.words.empty() || pair.words.back() != w) pair.words.push_back(static_cast<uint32_t>(w));
        }
    }
    std::vector<Candidate> heap;
    heap.reserve(pairs.size());
    for (const auto& [key, pair] : pairs) heap.push_back({pair.count, key});
    std::make_heap(heap.begin(), heap.end());
    const auto offer = [&](int64_t count, uint64_t key) {
        heap.push_back({count, key});
        std::push_heap(heap.begin(), heap.end());
    };

    const auto least = static_cast<int64_t>(std::max<uint64_t>(min_frequency, 1));
    std::unordered_map<uint64_t, int64_t> changes;
    while (learned.symbols.size() < target && !heap.empty()) {
        std::pop_heap(heap.begin(), heap.end());
        const Candidate best = heap.back();
        heap.pop_back();
        const auto found = pairs.find(best.pair);
        const int64_t count = found == pairs.end() ? 0 : found->second.count;
        if (count != best.count) {
            // Out of date. Where the pair has grown since, a newer candidate is in the heap already.
            if (count > 0 && count < best.count) offer(count, best.pair);
            continue;
        }
        if (count < least) break;

        Merge merge;
        merge.left = static_cast<int32_t>(best.pair >> 32);
        merge.right = static_cast<int32_t>(best.pair & 0xFFFFFFFFu);
        std::string joined = learned.symbols[static_cast<std::size_t>(merge.left)] +
                             learned.symbols[static_cast<std::size_t>(merge.right)];
        const auto [id, fresh] = ids.emplace(joined, static_cast<int32_t>(learned.symbols.size()));
        if (fresh) learned.symbols.push_back(std::move(joined));
        merge.result = id->second;
        learned.merges.push_back(merge);

        const std::vector<uint32_t> touched = std::move(found->second.words);
        pairs.erase(found);
        changes.clear();
        for (const uint32_t w : touched) {
            std::vector<int32_t>& symbols = words[w].symbols;
            const auto times = static_cast<int64_t>(words[w].count);
            bool has = false;
            for (std::size_t i = 0; i + 1 < symbols.size() && !has; ++i)
                has = symbols[i] == merge.left && symbols[i + 1] == merge.right;
            if (!has) continue;
            for (std::size_t i = 0; i + 1 < symbols.size(); ++i) changes[pair_key(symbols[i], symbols[i + 1])] -= times;
            merge_word(symbols, merge);
            for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
                const uint64_t key = pair_key(symbols[i], symbols[i + 1]);
                changes[key] += times;
                // Only a neighbour of the new symbol can be a pair that this word was not yet listed for.
                if (symbols[i] != merge.result && symbols[i + 1] != merge.result) continue;
                std::vector<uint32_t>& listed = pairs[key].words;
                if (listed.empty() || listed.back() != w) listed.push_back(w);
            }
        }
        for (const auto& [key, change] : changes) {
            if (key == best.pair || change == 0) continue;
            Pair& pair = pairs[key];
            pair.count += change;
            if (change > 0) offer(pair.count, key);
        }
    }
    return learned;
}

} // namespace hekla::text
