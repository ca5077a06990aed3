// A language model that is a pure function of all tokens a row attends to, read through the cache rows. Any error of
// the generator with positions, counts, chunks or beams changes its output.
#pragma once

#include "generate/decoder.hpp"
#include "generate/options.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <span>
#include <vector>

namespace hekla::test {

using Ids = std::vector<int32_t>;

inline std::vector<float> scores_after(std::span<const int32_t> history, int64_t vocabulary) {
    uint64_t hash = 1469598103934665603u;
    for (const int32_t id : history) hash = (hash ^ static_cast<uint64_t>(id + 1)) * 1099511628211u;
    std::vector<float> scores(static_cast<std::size_t>(vocabulary));
    for (float& score : scores) {
        hash = hash * 6364136223846793005u + 1442695040888963407u;
        score = static_cast<float>(hash >> 40) / static_cast<float>(1 << 24) * 4.0f;
    }
    return scores;
}

class HistoryDecoder : public generate::Decoder {
public:
    explicit HistoryDecoder(int64_t vocabulary, std::vector<int64_t> chunks = {1, 16, 128})
        : vocabulary_(vocabulary), chunks_(std::move(chunks)) {}

    bool encoder_decoder() const override { return false; }
    int64_t vocabulary() const override { return vocabulary_; }
    int64_t capacity() const override { return capacity_; }
    const std::vector<int64_t>& chunks() const override { return chunks_; }

    Result<int64_t> longest(const generate::DecodeBatch& session) const override {
        return context_ > 0 ? std::min(context_, session.length) : session.length;
    }

    Status begin(const generate::DecodeBatch& session) override {
        if (context_ > 0 && session.length > context_) return invalid_argument("longer than the context");
        length_ = session.length;
        capacity_ = session.length; // not rounded up, to detect one step too many
        cache_.assign(static_cast<std::size_t>(session.rows), Ids(static_cast<std::size_t>(capacity_), -1));
        return {};
    }

    Status decode(const generate::Step& step, generate::Logits& logits) override {
        const std::size_t rows = cache_.size(), chunk = static_cast<std::size_t>(step.chunk);
        REQUIRE(step.tokens.size() == rows * chunk);
        REQUIRE(step.cache_row.size() == rows * static_cast<std::size_t>(capacity_));
        ++steps_;
        for (std::size_t row = 0; row < rows; ++row) {
            REQUIRE(step.start[row] >= 0);
            REQUIRE(step.count[row] <= step.chunk);
            REQUIRE(step.start[row] + step.count[row] <= length_);
            for (int32_t i = 0; i < step.count[row]; ++i)
                cache_[row][static_cast<std::size_t>(step.start[row] + i)] =
                    step.tokens[row * chunk + static_cast<std::size_t>(i)];
        }
        logits.assign(rows * static_cast<std::size_t>(vocabulary_), std::nanf(""));
        for (std::size_t row = 0; row < rows; ++row) {
            if (step.count[row] == 0) continue;
            Ids history;
            for (int32_t j = 0; j < step.start[row] + step.count[row]; ++j) {
                const auto place = static_cast<std::size_t>(j);
                const int32_t owner = step.cache_row[row * static_cast<std::size_t>(capacity_) + place];
                history.push_back(cache_[static_cast<std::size_t>(owner)][place]);
                CHECK(history.back() >= 0); // never an unwritten position
            }
            const std::vector<float> scores = scores_after(history, vocabulary_);
            std::copy(scores.begin(), scores.end(), logits.begin() + static_cast<std::ptrdiff_t>(row * scores.size()));
        }
        return {};
    }

    int steps() const { return steps_; }
    void set_context(int64_t tokens) { context_ = tokens; } // 0: any length

private:
    int64_t vocabulary_, capacity_ = 0, length_ = 0, context_ = 0;
    std::vector<int64_t> chunks_;
    std::vector<Ids> cache_;
    int steps_ = 0;
};

} // namespace hekla::test
