// Choice and replacement of the tokens to predict (Devlin et al. 2019; spans: Joshi et al. 2020).
#pragma once

#include "collate.hpp"

#include <cmath>

namespace hekla::plugin {

struct MaskingOptions {
    double probability = 0.15;  // share of the row's tokens to predict
    double mask_share = 0.8;    // share of those that become the mask token
    double random_share = 0.1;  // share of those that become a random token; the rest is unchanged
    bool whole_words = false;   // all tokens of a word or none
    bool spans = false;         // runs of words with geometric lengths
    double span_success = 0.2;  // of the geometric distribution
    uint64_t longest_span = 10; // in words

    explicit MaskingOptions(const Config& c)
        : probability(c.real("mask_probability", 0.15)), mask_share(c.real("mask_share", 0.8)),
          random_share(c.real("random_share", 0.1)), whole_words(c.boolean("whole_words", false)) {
        require(mask_share + random_share <= 1.0, "mask_share and random_share are more than 1 together");
    }

    // Returns how many of n tokens are predicted: the rounded share, at least one.
    std::size_t wanted(std::size_t n) const {
        if (n == 0) return 0;
        return std::max<std::size_t>(1, static_cast<std::size_t>(std::lround(probability * static_cast<double>(n))));
    }
    // Returns the largest number of predicted tokens in a row of this length.
    int64_t most(int64_t length) const { return static_cast<int64_t>(wanted(static_cast<std::size_t>(length))); }
};

// A token to predict, and the span that it belongs to.
struct Masked {
    std::size_t place = 0; // in the row
    int32_t token = 0;     // the original token
    std::size_t span_begin = 0, span_end = 0;
};

class Masking {
public:
    Masking(const MaskingOptions& options, const Tokens& tokens, const char* objective)
        : options_(options), tokens_(tokens), mask_(tokens.required("mask", objective)), vocabulary_(tokens.size()) {}

    // Masks `row` in place. `candidates`: the positions that hold text, ascending. The result is in ascending order.
    std::vector<Masked> apply(std::span<int32_t> row, const std::vector<std::size_t>& candidates,
                              Random& random) const {
        std::vector<Masked> chosen =
            options_.spans ? choose_spans(row, candidates, random) : choose_words(row, candidates, random);
        std::ranges::sort(chosen, {}, &Masked::place);
        double draw = 0.0;
        for (std::size_t i = 0; i < chosen.size(); ++i) {
            Masked& m = chosen[i];
            // One draw per token; a span is masked as a whole.
            if (!options_.spans || i == 0 || chosen[i - 1].span_begin != m.span_begin) draw = random.unit();
            if (draw < options_.mask_share)
                row[m.place] = mask_;
            else if (draw < options_.mask_share + options_.random_share)
                row[m.place] = static_cast<int32_t>(random.below(static_cast<uint64_t>(vocabulary_)));
        }
        return chosen;
    }

private:
    // Returns the positions of each word as indices into candidates: [begin, end).
    std::vector<std::pair<std::size_t, std::size_t>>
    words(std::span<const int32_t> row, const std::vector<std::size_t>& candidates, bool whole) const {
        std::vector<std::pair<std::size_t, std::size_t>> result;
        for (std::size_t i = 0; i < candidates.size(); ++i) {
            const bool begins =
                !whole || i == 0 || candidates[i] != candidates[i - 1] + 1 || tokens_.word_start(row[candidates[i]]);
            if (begins) result.emplace_back(i, i);
            result.back().second = i + 1;
        }
        return result;
    }

    std::vector<Masked> choose_words(std::span<const int32_t> row, const std::vector<std::size_t>& candidates,
                                     Random& random) const {
        auto all = words(row, candidates, options_.whole_words);
        random.shuffle(all);
        const std::size_t wanted = options_.wanted(candidates.size());
        std::vector<Masked> chosen;
        for (const auto& [begin, end] : all) {
            if (chosen.size() == wanted) break;
            if (chosen.size() + (end - begin) > wanted) continue; // a shorter word may still fit
            for (std::size_t i = begin; i < end; ++i)
                chosen.push_back({candidates[i], row[candidates[i]], candidates[begin], candidates[end - 1] + 1});
        }
        return chosen;
    }

    // Draws spans of whole words until the share is reached. A span that would overlap or is too long is drawn again;
    // after many failed draws the row keeps the spans that it has.
    std::vector<Masked> choose_spans(std::span<const int32_t> row, const std::vector<std::size_t>& candidates,
                                     Random& random) const {
        const auto all = words(row, candidates, true);
        const std::size_t wanted = options_.wanted(candidates.size());
        std::vector<bool> taken(all.size(), false);
        std::vector<Masked> chosen;
        for (std::size_t tries = 0; tries < 20 * all.size() + 100 && chosen.size() < wanted && !all.empty(); ++tries) {
            const std::size_t length = random.geometric(options_.span_success, options_.longest_span);
            const std::size_t first = random.below(all.size());
            if (first + length > all.size()) continue;
            bool free = true;
            // Keep a word between two spans, so that both boundaries are visible.
            for (std::size_t w = first > 0 ? first - 1 : 0; w < std::min(first + length + 1, all.size()); ++w)
                free = free && !taken[w];
            const std::size_t begin = all[first].first, end = all[first + length - 1].second;
            if (!free || chosen.size() + (end - begin) > wanted ||
                candidates[end - 1] - candidates[begin] != end - 1 - begin)
                continue;
            for (std::size_t w = first; w < first + length; ++w) taken[w] = true;
            for (std::size_t i = begin; i < end; ++i)
                chosen.push_back({candidates[i], row[candidates[i]], candidates[begin], candidates[end - 1] + 1});
        }
        return chosen;
    }

    MaskingOptions options_;
    Tokens tokens_;
    int32_t mask_ = 0;
    int64_t vocabulary_ = 0;
};

} // namespace hekla::plugin
