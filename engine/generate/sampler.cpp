#include "generate/sampler.hpp"

#include "base/philox.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numeric>

namespace hekla::generate {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

float* find(std::span<float> scores, int32_t id) {
    return id >= 0 && static_cast<std::size_t>(id) < scores.size() ? &scores[static_cast<std::size_t>(id)] : nullptr;
}

void forbid(std::span<float> scores, std::span<const int32_t> ids) {
    for (const int32_t id : ids)
        if (float* score = find(scores, id)) *score = kNever;
}

// Forbids tokens that would repeat an n-gram of `text` after `ids`.
void forbid_ngrams(std::span<float> scores, std::span<const int32_t> text, std::span<const int32_t> ids, int64_t size) {
    const auto n = static_cast<std::size_t>(size);
    if (size <= 0 || ids.size() + 1 < n || text.size() < n) return;
    const std::span<const int32_t> tail = ids.last(n - 1);
    for (std::size_t i = 0; i + n <= text.size(); ++i)
        if (std::equal(tail.begin(), tail.end(), text.begin() + static_cast<std::ptrdiff_t>(i)))
            forbid(scores, text.subspan(i + n - 1, 1));
}

void force(std::span<float> scores, std::span<const int32_t> ids) {
    std::ranges::fill(scores, kNever);
    for (const int32_t id : ids)
        if (float* score = find(scores, id)) *score = 0.0f;
}

// The first of the highest scores. Not finite: a score is NaN or infinite.
struct Highest {
    std::size_t index = 0;
    float score = kNever;
    bool finite = true;
};

Highest highest(std::span<const float> scores) {
    constexpr std::size_t kBlock = 256, kLanes = 8; // maxima that do not depend on each other
    Highest best;
    for (std::size_t from = 0; from < scores.size(); from += kBlock) {
        const std::span<const float> block = scores.subspan(from, std::min(kBlock, scores.size() - from));
        float most[kLanes];
        std::ranges::fill(most, kNever);
        bool finite = true;
        std::size_t i = 0;
        for (; i + kLanes <= block.size(); i += kLanes)
            for (std::size_t lane = 0; lane < kLanes; ++lane) {
                const float score = block[i + lane];
                finite &= score < std::numeric_limits<float>::infinity(); // false for NaN
                most[lane] = score > most[lane] ? score : most[lane];
            }
        for (; i < block.size(); ++i) {
            finite &= block[i] < std::numeric_limits<float>::infinity();
            most[0] = std::max(most[0], block[i]);
        }
        best.finite &= finite;
        const float top = *std::ranges::max_element(most);
        if (top > best.score) {
            best.score = top;
            best.index = from + static_cast<std::size_t>(std::ranges::find(block, top) - block.begin());
        }
    }
    return best;
}

} // namespace

void Sampler::process(const Row& row, std::span<float> scores) const {
    const Options& o = options_;
    const auto length = static_cast<int64_t>(row.ids.size());
    const int64_t made = length - row.prompt_length;
    if (o.repetition_penalty != 1.0) {
        std::vector<int32_t> seen(row.ids.begin(), row.ids.end());
        std::ranges::sort(seen);
        seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
        const auto penalty = static_cast<float>(o.repetition_penalty);
        for (const int32_t id : seen)
            if (float* score = find(scores, id)) *score = *score < 0.0f ? *score * penalty : *score / penalty;
    }
    forbid_ngrams(scores, row.ids, row.ids, o.no_repeat_ngram_size);
    forbid_ngrams(scores, row.source, row.ids, o.encoder_no_repeat_ngram_size);
    if (made < o.min_new_tokens) forbid(scores, o.eos);
    if (o.forced_bos && length == 1) force(scores, std::span(&*o.forced_bos, 1));
    if (!o.forced_eos.empty() && made == o.max_new_tokens - 1) force(scores, o.forced_eos);
    forbid(scores, o.suppress);
}

void Sampler::warp(std::span<float> scores) const {
    const Options& o = options_;
    if (o.temperature != 1.0) {
        const auto temperature = static_cast<float>(o.temperature);
        for (float& score : scores) score /= temperature;
    }
    if (o.top_k > 0 && static_cast<std::size_t>(o.top_k) < scores.size()) {
        std::vector<float> sorted(scores.begin(), scores.end());
        const auto kth = sorted.begin() + (o.top_k - 1);
        std::nth_element(sorted.begin(), kth, sorted.end(), std::greater<>());
        const float least = *kth; // ties with the k-th are kept
        for (float& score : scores)
            if (score < least) score = kNever;
    }
    if (o.top_p < 1.0) {
        std::vector<std::size_t> order;
        for (std::size_t i = 0; i < scores.size(); ++i)
            if (scores[i] != kNever) order.push_back(i);
        if (order.empty()) return;
        std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
        const double top = scores[order.back()];
        double total = 0.0;
        for (const std::size_t i : order) total += std::exp(scores[i] - top);
        double below = 0.0;
        for (std::size_t k = 0; k + 1 < order.size(); ++k) { // the most likely token is always kept
            below += std::exp(scores[order[k]] - top) / total;
            if (below > 1.0 - o.top_p) break;
            scores[order[k]] = kNever;
        }
    }
}

Result<int32_t> Sampler::choose(uint64_t row, uint64_t position, std::span<float> scores) const {
    Highest best = highest(scores);
    if (!best.finite)
        return failed_precondition(fmt::format("row {}: the model's scores for the token at position {} are not finite "
                                               "numbers; the weights are damaged or overflow",
                                               row, position));
    if (options_.sample) {
        warp(scores);
        best = highest(scores);
    }
    if (best.score == kNever)
        return failed_precondition(fmt::format(
            "row {}: every token at position {} is forbidden; loosen no_repeat_ngram_size, suppress_tokens or "
            "min_new_tokens",
            row, position));
    if (!options_.sample) return static_cast<int32_t>(best.index);

    const double top = best.score;
    std::vector<double> weights(scores.size()); // 0 for forbidden tokens
    double total = 0.0;
    for (std::size_t i = 0; i < scores.size(); ++i) {
        if (scores[i] != kNever) weights[i] = std::exp(scores[i] - top);
        total += weights[i];
    }
    const double wanted = draw_unit(options_.seed, row, position) * total;
    double sum = 0.0;
    int32_t last = 0;
    for (std::size_t i = 0; i < scores.size(); ++i) {
        if (scores[i] == kNever) continue;
        last = static_cast<int32_t>(i);
        sum += weights[i];
        if (sum > wanted) break;
    }
    return last;
}

double draw_unit(uint64_t seed, uint64_t row, uint64_t position) {
    const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
    const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
    const std::array<uint32_t, 4> words =
        philox({low(position), high(position), low(row), high(row)}, {low(seed), high(seed)});
    return static_cast<double>((uint64_t{words[0]} << 32 | words[1]) >> 11) * 0x1.0p-53;
}

} // namespace hekla::generate
