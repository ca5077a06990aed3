// Statistics of the whole corpus for training word vectors: how often each word occurs, and how often two occur near
// each other. Counted once, when the first batch needs them.
#pragma once

#include "collate.hpp"

#include <map>
#include <mutex>
#include <unordered_map>

namespace hekla::plugin {

// The text of a corpus of windows, one starting at every token.
class CorpusText {
public:
    explicit CorpusText(const hk_corpus& corpus) : corpus_(corpus) {}
    uint64_t examples() const { return corpus_.example_count; }
    std::vector<int32_t> window(uint64_t index) const {
        hk_example example{};
        example.struct_size = sizeof example;
        const int32_t code = corpus_.get(corpus_.context, index, &example, nullptr);
        if (code != HK_OK) throw Error(code, "a window of the corpus could not be read");
        const Ids ids = Example(example).get("text").ids();
        return {ids.begin(), ids.end()};
    }
    // Reads all of it once, in order, in pieces.
    template<class F>
    void each_piece(F&& f) const {
        const uint64_t last = corpus_.example_count - 1;
        uint64_t at = 0;
        while (at <= last) {
            const std::vector<int32_t> ids = window(at);
            f(Ids(ids));
            at += std::max<std::size_t>(ids.size(), 1);
        }
        const std::vector<int32_t> rest = window(last);
        if (at - last < rest.size()) f(Ids(rest).subspan(at - last));
    }

private:
    const hk_corpus& corpus_;
};

// One T for each corpus that batches come from (training, validation), created by the first thread that needs it while
// the others wait.
template<class T>
class PerCorpus {
public:
    template<class F>
    std::shared_ptr<const T> get(const hk_corpus* corpus, F&& make) const {
        if (corpus == nullptr || corpus->example_count == 0)
            throw invalid("words can be counted in a corpus alone, and this batch comes from none");
        const CorpusText text(*corpus);
        // Two corpora differ in length, or in how they begin and end.
        std::vector<int32_t> key = text.window(0);
        const std::vector<int32_t> last = text.window(text.examples() - 1);
        key.insert(key.end(), last.begin(), last.end());
        key.push_back(static_cast<int32_t>(text.examples() & 0x7fffffff));
        const std::lock_guard lock(mutex_);
        std::shared_ptr<const T>& known = known_[key];
        if (known == nullptr) known = std::make_shared<const T>(make(text));
        return known;
    }

private:
    mutable std::mutex mutex_;
    mutable std::map<std::vector<int32_t>, std::shared_ptr<const T>> known_;
};

// How often each id occurs in a text, and random draws by a power of that.
class WordCounts {
public:
    WordCounts(const CorpusText& text, std::optional<int32_t> unknown, double power) {
        text.each_piece([&](Ids ids) {
            for (const int32_t id : ids) {
                if (id < 0 || id == unknown) continue;
                if (static_cast<std::size_t>(id) >= counts_.size()) counts_.resize(static_cast<std::size_t>(id) + 1);
                ++counts_[static_cast<std::size_t>(id)];
                ++total_;
            }
        });
        double sum = 0.0;
        for (const uint64_t count : counts_)
            cumulative_.push_back(sum += count > 0 ? std::pow(static_cast<double>(count), power) : 0.0);
        if (sum <= 0.0) throw invalid("the text has no known word: train another tokenizer, or give more text");
    }
    double share(int32_t id) const {
        return static_cast<double>(counts_[static_cast<std::size_t>(id)]) / static_cast<double>(total_);
    }
    int32_t draw(Random& random) const {
        const double at = random.unit() * cumulative_.back();
        return static_cast<int32_t>(std::ranges::upper_bound(cumulative_, at) - cumulative_.begin());
    }

private:
    std::vector<uint64_t> counts_;
    std::vector<double> cumulative_;
    uint64_t total_ = 0;
};

// Pairs of words with the sum of 1 / distance over all their occurrences within the window, in either order.
class CoOccurrences {
public:
    struct Entry {
        int32_t word = 0, neighbor = 0;
        double count = 0.0;
    };
    CoOccurrences(const CorpusText& text, std::optional<int32_t> unknown, std::size_t window) {
        std::unordered_map<uint64_t, double> sums;
        std::vector<int32_t> before; // last words of the previous piece: windows cross its end
        text.each_piece([&](Ids ids) {
            std::vector<int32_t> all = before;
            all.insert(all.end(), ids.begin(), ids.end());
            for (std::size_t i = before.size(); i < all.size(); ++i)
                for (std::size_t d = 1; d <= std::min(window, i); ++d) {
                    const int32_t a = all[i], b = all[i - d];
                    if (a == unknown || b == unknown) continue;
                    const double part = 1.0 / static_cast<double>(d);
                    sums[key(a, b)] += part;
                    sums[key(b, a)] += part;
                }
            const std::size_t kept = std::min(window, all.size());
            before.assign(all.end() - static_cast<std::ptrdiff_t>(kept), all.end());
        });
        for (const auto& [pair, count] : sums)
            entries_.push_back({static_cast<int32_t>(pair >> 32), static_cast<int32_t>(pair & 0xffffffffu), count});
        if (entries_.empty()) throw invalid("no two known words stand near each other in the text");
        std::ranges::sort(entries_, [](const Entry& a, const Entry& b) {
            return a.word != b.word ? a.word < b.word : a.neighbor < b.neighbor;
        });
    }
    const std::vector<Entry>& entries() const { return entries_; }

private:
    static uint64_t key(int32_t a, int32_t b) {
        return static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32 | static_cast<uint32_t>(b);
    }
    std::vector<Entry> entries_;
};

} // namespace hekla::plugin
