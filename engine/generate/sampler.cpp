#include "generate/sampler.hpp"

#include "base/philox.hpp"
#include "program/lowering/records.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <limits>

namespace hekla::generate {
namespace {

namespace kernels = program::kernels::generate;

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

void drop_below(std::span<float> scores, float least) {
    for (float& score : scores)
        if (score < least) score = kNever;
}

// Returns the whole part of x * share / 2^64.
uint64_t part_of(uint64_t x, uint64_t share) {
    const uint64_t x_low = x & 0xFFFFFFFF, x_high = x >> 32, low = share & 0xFFFFFFFF, high = share >> 32;
    const uint64_t middle = x_high * low + ((x_low * low) >> 32); // at most 2^64 - 2^32
    return x_high * high + (middle >> 32) + (((middle & 0xFFFFFFFF) + x_low * high) >> 32);
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
    for (const auto& [token, value] : o.logit_bias)
        if (float* score = find(scores, token)) *score += value;
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
        const float factor = static_cast<float>(1.0 / o.temperature);
        for (float& score : scores) score *= factor;
    }
    if (o.top_k > 0 && static_cast<std::size_t>(o.top_k) < scores.size()) {
        std::vector<float> sorted(scores.begin(), scores.end());
        const auto kth = sorted.begin() + (o.top_k - 1);
        std::nth_element(sorted.begin(), kth, sorted.end(), std::greater<>());
        drop_below(scores, *kth);
    }
    if (const uint32_t dropped = dropped_share(o.top_p); dropped > 0) {
        std::vector<float> sorted;
        std::ranges::copy_if(scores, std::back_inserter(sorted), [](float score) { return score != kNever; });
        if (sorted.empty()) return;
        std::ranges::sort(sorted);
        const float top = sorted.back();
        uint64_t total = 0, below = 0;
        for (const float score : sorted) total += share_of(top - score);
        const uint64_t limit = part_of(total, uint64_t{dropped} << 32);
        const auto least = std::ranges::find_if(sorted, [&](float score) {
            below += share_of(top - score);
            return below > limit;
        });
        drop_below(scores, *least);
    }
    if (o.min_p > 0.0) drop_below(scores, highest(scores).score - kept_range(o.min_p));
}

Result<int32_t> Sampler::choose(uint64_t row, uint64_t position, std::span<float> scores) const {
    Highest best = highest(scores);
    if (!best.finite) return choice_error(kernels::kNotFinite, row, position);
    if (options_.sample) {
        warp(scores);
        best = highest(scores);
    }
    if (best.score == kNever) return choice_error(kernels::kNoTokenAllowed, row, position);
    if (!options_.sample) return static_cast<int32_t>(best.index);

    uint64_t total = 0, sum = 0;
    for (const float score : scores) total += share_of(best.score - score);
    const uint64_t wanted = part_of(total, draw_bits(options_.seed, row, position));
    const auto drawn = std::ranges::find_if(scores, [&](float score) {
        sum += share_of(best.score - score);
        return sum > wanted;
    });
    return static_cast<int32_t>(drawn - scores.begin());
}

Status choice_error(int32_t token, uint64_t row, uint64_t position) {
    if (token == kernels::kNotFinite)
        return failed_precondition(fmt::format("row {}: the model's scores for the token at position {} are not finite "
                                               "numbers; the weights are damaged or overflow",
                                               row, position));
    return failed_precondition(
        fmt::format("row {}: every token at position {} is forbidden; loosen no_repeat_ngram_size, suppress_tokens, "
                    "min_new_tokens or logit biases of -inf",
                    row, position));
}

uint32_t share_of(float below) {
    const float halvings = below * kernels::kHalvings;
    if (!(halvings < 32.0f)) return 0;
    const auto n = static_cast<uint32_t>(halvings * 0x1p24f);
    const uint64_t fraction = n & 0xFFFFFF;
    uint32_t power = kernels::kShare7;
    for (const uint32_t next : {kernels::kShare6, kernels::kShare5, kernels::kShare4, kernels::kShare3,
                                kernels::kShare2, kernels::kShare1, kernels::kShare0})
        power = next - static_cast<uint32_t>(fraction * power >> 24);
    return power >> (n >> 24);
}

uint32_t dropped_share(double top_p) {
    return static_cast<uint32_t>(std::clamp((1.0 - top_p) * 0x1p32, 0.0, 0x1p32 - 1.0));
}

float kept_range(double min_p) {
    return min_p > 0.0 ? static_cast<float>(std::min<double>(-std::log(min_p), kernels::kWholeRange))
                       : kernels::kWholeRange;
}

uint64_t draw_bits(uint64_t seed, uint64_t row, uint64_t position) {
    const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
    const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
    const std::array<uint32_t, 4> words =
        philox({low(position), high(position), low(row), high(row)}, {low(seed), high(seed)});
    return uint64_t{words[0]} << 32 | words[1];
}

} // namespace hekla::generate
