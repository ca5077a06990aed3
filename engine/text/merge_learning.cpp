#include "text/merge_learning.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace hekla::text {
namespace {

uint64_t pair_key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

struct Pair {
    int64_t count = 0;
    std::vector<uint32_t> words; // that have, or once had, the pair; in the order found, possibly repeated
};

struct Candidate {
    int64_t count;
    uint64_t pair;
    // For a heap whose top is the largest count, then the smallest pair.
    bool operator<(const Candidate& other) const {
        return count != other.count ? count < other.count : pair > other.pair;
    }
};

// Joins every occurrence of the pair in one word, from the left, and calls `lost(left, right)` and `gained(left,
// right)` for every pair of neighbors that is removed or added.
template<class Lost, class Gained>
void merge_word(std::vector<int32_t>& symbols, const Merge& merge, const Lost& lost, const Gained& gained) {
    const std::size_t size = symbols.size();
    std::size_t kept = 0;
    std::size_t told = 0;      // pairs that begin before this have been reported as lost
    bool after_joined = false; // the symbol at kept - 1 is new
    const auto tell = [&](std::size_t i) {
        if (i >= told && i + 1 < size) {
            lost(symbols[i], symbols[i + 1]);
            told = i + 1;
        }
    };
    // Writing follows reading: symbols[kept - 1] may be new while symbols[i] is still old, so the old left neighbor is
    // saved to report the pair before an occurrence.
    int32_t old_before = -1;
    for (std::size_t i = 0; i < size;) {
        const bool here = i + 1 < size && symbols[i] == merge.left && symbols[i + 1] == merge.right;
        const int32_t old_here = symbols[here ? i + 1 : i];
        if (here) {
            if (i > 0 && i - 1 >= told) {
                lost(old_before, merge.left);
                told = i;
            }
            tell(i);
            tell(i + 1);
        }
        const int32_t put = here ? merge.result : symbols[i];
        if (kept > 0 && (here || after_joined)) gained(symbols[kept - 1], put);
        i += here ? 2 : 1;
        symbols[kept++] = put;
        after_joined = here;
        old_before = old_here;
    }
    symbols.resize(kept);
}

} // namespace

Result<LearnedMerges> learn_merges(std::vector<std::string> alphabet, std::vector<CountedWord> words,
                                   std::size_t target, uint64_t min_frequency, std::string_view prefix,
                                   const StopPoll& stop) {
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
    std::unordered_set<uint64_t> merged;
    while (learned.symbols.size() < target && !heap.empty()) {
        std::pop_heap(heap.begin(), heap.end());
        const Candidate best = heap.back();
        heap.pop_back();
        const auto found = pairs.find(best.pair);
        const int64_t count = found == pairs.end() ? 0 : found->second.count;
        if (count != best.count) {
            // Outdated. If the pair has grown since, there is already a newer candidate in the heap.
            if (count > 0 && count < best.count) offer(count, best.pair);
            continue;
        }
        if (count < least) break;
        if (learned.merges.size() % 64 == 0) HK_TRY(stop.check_now("training the tokenizer"));

        Merge merge;
        merge.left = static_cast<int32_t>(best.pair >> 32);
        merge.right = static_cast<int32_t>(best.pair & 0xFFFFFFFFu);
        std::string_view right = learned.symbols[static_cast<std::size_t>(merge.right)];
        if (right.starts_with(prefix)) right.remove_prefix(prefix.size());
        std::string joined = learned.symbols[static_cast<std::size_t>(merge.left)];
        joined += right;
        const auto [id, fresh] = ids.emplace(joined, static_cast<int32_t>(learned.symbols.size()));
        if (fresh) learned.symbols.push_back(std::move(joined));
        merge.result = id->second;
        // A string formed in a second way can produce a pair that was already merged; its merge is in the list.
        if (merged.insert(best.pair).second) learned.merges.push_back(merge);

        const std::vector<uint32_t> touched = std::move(found->second.words);
        pairs.erase(found);
        changes.clear();
        for (const uint32_t w : touched) {
            const auto times = static_cast<int64_t>(words[w].count);
            merge_word(
                words[w].symbols, merge, [&](int32_t left, int32_t right) { changes[pair_key(left, right)] -= times; },
                [&](int32_t left, int32_t right) {
                    const uint64_t key = pair_key(left, right);
                    changes[key] += times;
                    std::vector<uint32_t>& listed = pairs[key].words;
                    if (listed.empty() || listed.back() != w) listed.push_back(w);
                });
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
