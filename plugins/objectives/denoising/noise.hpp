// How BART (Lewis et al. 2020) and T5 (Raffel et al. 2020) corrupt a text.
#pragma once

#include "collate.hpp"

#include <cmath>

namespace hekla::plugin {

// BART's transformations, in the order in which they are applied; 0 turns one off.
struct NoiseOptions {
    double permute_sentences = 1.0; // share of the sentences that are permuted
    double infilling = 0.3;         // share of the tokens, in spans of Poisson length; each span becomes one mask
    double span_mean = 3.0;
    double masking = 0.0;  // share of the tokens that become a mask
    double deletion = 0.0; // share of the tokens that are deleted
    double rotation = 0.0; // probability that the text starts at a random token
};

inline std::vector<int32_t> permuted_sentences(const std::vector<int32_t>& ids, const std::vector<std::size_t>& ends,
                                               double share, Random& random) {
    std::vector<std::pair<std::size_t, std::size_t>> sentences;
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
        if (end > begin) sentences.emplace_back(begin, end);
        begin = end;
    }
    if (begin < ids.size()) sentences.emplace_back(begin, ids.size());
    std::vector<std::size_t> moved(sentences.size());
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] = i;
    random.shuffle(moved);
    moved.resize(static_cast<std::size_t>(std::ceil(share * static_cast<double>(sentences.size()))));
    std::vector<std::size_t> order(sentences.size()), places = moved;
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    random.shuffle(places);
    for (std::size_t i = 0; i < moved.size(); ++i) order[moved[i]] = places[i];
    std::vector<int32_t> result;
    for (const std::size_t i : order)
        result.insert(result.end(), ids.begin() + static_cast<std::ptrdiff_t>(sentences[i].first),
                      ids.begin() + static_cast<std::ptrdiff_t>(sentences[i].second));
    return result;
}

// Masks spans of Poisson lengths that cover the share exactly (the last one is shortened), at uniformly drawn
// positions. A span of length 0 inserts a mask between two tokens.
inline std::vector<int32_t> infilled(const std::vector<int32_t>& ids, double share, double mean, int32_t mask,
                                     Random& random) {
    auto left = static_cast<std::size_t>(std::lround(share * static_cast<double>(ids.size())));
    if (left == 0) return ids;
    const std::size_t kept = ids.size() - left;
    std::vector<std::size_t> items(kept, ids.size() + 1); // a token that is kept, or the length of a span
    while (left > 0) {
        const auto length = std::min<std::size_t>(left, random.poisson(mean));
        items.push_back(length);
        left -= length;
    }
    random.shuffle(items);
    std::vector<int32_t> result;
    std::size_t at = 0;
    for (const std::size_t item : items) {
        if (item > ids.size()) {
            result.push_back(ids[at++]);
            continue;
        }
        result.push_back(mask);
        at += item;
    }
    return result;
}

// Draws round(share * n) of n positions uniformly.
inline std::vector<bool> drawn_places(std::size_t n, double share, Random& random) {
    std::vector<std::size_t> order(n);
    for (std::size_t i = 0; i < n; ++i) order[i] = i;
    random.shuffle(order);
    std::vector<bool> result(n, false);
    const auto count = static_cast<std::size_t>(std::lround(share * static_cast<double>(n)));
    for (std::size_t i = 0; i < std::min(count, n); ++i) result[order[i]] = true;
    return result;
}

// `sentence_ends`: positions after which a sentence ends.
inline std::vector<int32_t> noisy(std::vector<int32_t> ids, const std::vector<std::size_t>& sentence_ends,
                                  const NoiseOptions& o, int32_t mask, Random& random) {
    if (o.permute_sentences > 0.0) ids = permuted_sentences(ids, sentence_ends, o.permute_sentences, random);
    if (o.infilling > 0.0) ids = infilled(ids, o.infilling, o.span_mean, mask, random);
    if (o.masking > 0.0) {
        const std::vector<bool> places = drawn_places(ids.size(), o.masking, random);
        for (std::size_t i = 0; i < ids.size(); ++i)
            if (places[i]) ids[i] = mask;
    }
    if (o.deletion > 0.0) {
        const std::vector<bool> places = drawn_places(ids.size(), o.deletion, random);
        std::vector<int32_t> kept;
        for (std::size_t i = 0; i < ids.size(); ++i)
            if (!places[i]) kept.push_back(ids[i]);
        ids = std::move(kept);
    }
    if (o.rotation > 0.0 && !ids.empty() && random.unit() < o.rotation)
        std::rotate(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(random.below(ids.size())), ids.end());
    return ids;
}

// T5's sizes: the number of noise tokens of n, and of spans.
struct SpanSizes {
    std::size_t noise = 0, spans = 0;
    SpanSizes(std::size_t n, double density, double mean) {
        const auto rounded = [](double x) { return static_cast<std::size_t>(std::max(0.0, std::round(x))); };
        if (n < 2) return;
        noise = std::clamp<std::size_t>(rounded(static_cast<double>(n) * density), 1, n - 1);
        spans = std::clamp<std::size_t>(rounded(static_cast<double>(noise) / mean), 1, std::min(noise, n - noise));
    }
};

// Splits `items` into `parts` parts of at least one, every split equally likely.
inline std::vector<std::size_t> random_parts(std::size_t items, std::size_t parts, Random& random) {
    std::vector<std::size_t> order(items - 1);
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    random.shuffle(order);
    std::vector<bool> cut(items - 1, false);
    for (std::size_t i = 0; i + 1 < parts; ++i) cut[order[i]] = true;
    std::vector<std::size_t> lengths{1};
    for (std::size_t i = 0; i + 1 < items; ++i) {
        if (cut[i])
            lengths.push_back(1);
        else
            ++lengths.back();
    }
    return lengths;
}

struct Corrupted {
    std::vector<int32_t> source, target;
};
// Splits into text, span, text, span, ...: in the source each span is its sentinel, in the target each text is the
// sentinel of the span after it (T5's random_spans_noise_mask). sentinels: at least as many as there can be spans.
inline Corrupted corrupted_spans(Ids ids, double density, double mean, const std::vector<int32_t>& sentinels,
                                 Random& random) {
    Corrupted result;
    SpanSizes sizes(ids.size(), density, mean);
    if (sizes.spans == 0) {
        result.source.assign(ids.begin(), ids.end());
        return result;
    }
    sizes.spans = std::min(sizes.spans, sentinels.size());
    const std::vector<std::size_t> noise = random_parts(sizes.noise, sizes.spans, random),
                                   text = random_parts(ids.size() - sizes.noise, sizes.spans, random);
    std::size_t at = 0;
    for (std::size_t i = 0; i < sizes.spans; ++i) {
        const auto take = [&](std::size_t count, std::vector<int32_t>& into) {
            into.insert(into.end(), ids.begin() + static_cast<std::ptrdiff_t>(at),
                        ids.begin() + static_cast<std::ptrdiff_t>(at + count));
            at += count;
        };
        take(text[i], result.source);
        result.source.push_back(sentinels[i]);
        result.target.push_back(sentinels[i]);
        take(noise[i], result.target);
    }
    return result;
}

} // namespace hekla::plugin
