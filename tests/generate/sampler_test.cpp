#include "generate/sampler.hpp"

#include "support.hpp"

#include <algorithm>
#include <limits>

using namespace hekla;
using namespace hekla::generate;
using test::Ids;

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

std::vector<float> processed(const Options& options, const Ids& ids, int64_t prompt, std::vector<float> scores,
                             const Ids& source = {}) {
    Sampler(options).process({ids, prompt, source}, scores);
    return scores;
}

} // namespace

TEST_CASE("sampler: repetition penalty divides positive scores and multiplies negative ones, once per token") {
    Options o;
    o.repetition_penalty = 2.0;
    CHECK(processed(o, {0, 2, 2, 0}, 1, {3, 1, -3, 1}) == std::vector<float>{1.5f, 1, -6, 1});
}

TEST_CASE("sampler: biases are added before everything else") {
    Options o;
    o.logit_bias = {{1, 2.5f}, {2, kNever}, {3, -1.0f}, {9, 1.0f}};
    CHECK(processed(o, {0}, 1, {1, 1, 1, 1}) == std::vector<float>{1, 3.5f, kNever, 0});
    o.repetition_penalty = 2.0;
    CHECK(processed(o, {1, 3}, 1, {1, 1, 1, 0}) == std::vector<float>{1, 1.75f, kNever, -2});
    o.suppress = {1};
    CHECK(processed(o, {0}, 1, {1, 1, 1, 1}) == std::vector<float>{0.5f, kNever, kNever, 0});
    o = {};
    o.logit_bias = {{0, 5.0f}};
    o.max_new_tokens = 1;
    o.forced_eos = {1};
    CHECK(processed(o, {0}, 1, {1, 1}) == std::vector<float>{kNever, 0});
}

TEST_CASE("sampler: no n-gram is repeated") {
    Options o;
    o.no_repeat_ngram_size = 2;
    CHECK(processed(o, {1, 2, 3, 1, 0, 1}, 1, {1, 1, 1, 1}) == std::vector<float>{kNever, 1, kNever, 1});
    CHECK(processed(o, {2}, 1, {1, 1, 1, 1}) == std::vector<float>{1, 1, 1, 1});
    o.no_repeat_ngram_size = 1;
    CHECK(processed(o, {1, 3}, 1, {1, 1, 1, 1}) == std::vector<float>{1, kNever, 1, kNever});
    o.no_repeat_ngram_size = 4;
    CHECK(processed(o, {1, 2, 3}, 1, {1, 1, 1, 1}) == std::vector<float>{1, 1, 1, 1});
    o.no_repeat_ngram_size = 0;
    o.encoder_no_repeat_ngram_size = 2;
    CHECK(processed(o, {3, 1}, 1, {1, 1, 1, 1}, {1, 2, 0, 1}) == std::vector<float>{1, 1, kNever, 1});
}

TEST_CASE("sampler: the end token is excluded below the minimum length and forced at the maximum") {
    Options o;
    o.eos = {1};
    o.min_new_tokens = 2;
    o.max_new_tokens = 4;
    o.forced_bos = 3;
    o.forced_eos = {1};
    CHECK(processed(o, {0}, 1, {1, 1, 1, 1}) == std::vector<float>{kNever, kNever, kNever, 0});
    CHECK(processed(o, {0, 3}, 1, {1, 1, 1, 1}) == std::vector<float>{1, kNever, 1, 1});
    CHECK(processed(o, {0, 3, 2}, 1, {1, 1, 1, 1}) == std::vector<float>{1, 1, 1, 1});
    CHECK(processed(o, {0, 3, 2, 2}, 1, {1, 1, 1, 1}) == std::vector<float>{kNever, 0, kNever, kNever});
    o = {};
    o.suppress = {0, 9};
    CHECK(processed(o, {0}, 1, {1, 1}) == std::vector<float>{kNever, 1});
}

TEST_CASE("sampler: temperature, top-k with ties, top-p with the token that exceeds it") {
    Options o;
    o.sample = true;
    o.temperature = 2.0;
    o.top_k = 2;
    std::vector<float> scores{4, 8, 6, 6, 2};
    Sampler(o).warp(scores);
    CHECK(scores == std::vector<float>{kNever, 4, 3, 3, kNever});

    o = {};
    o.sample = true;
    const auto logs = [](std::vector<double> p) {
        std::vector<float> s;
        for (const double x : p) s.push_back(static_cast<float>(std::log(x)));
        return s;
    };
    const auto left = [&](double top_p) {
        o.top_p = top_p;
        scores = logs({0.1, 0.5, 0.15, 0.25});
        Sampler(o).warp(scores);
        return std::ranges::count_if(scores, [](float s) { return s != kNever; });
    };
    CHECK(left(0.3) == 1); // at least one token is kept
    CHECK(left(0.6) == 2);
    CHECK(left(0.8) == 3);
    CHECK(left(1.0) == 4);
}

TEST_CASE("sampler: min-p keeps tokens relative to the most likely one, after temperature and the other two") {
    Options o;
    o.sample = true;
    const auto kept = [&](std::vector<double> p) {
        std::vector<float> scores;
        for (const double x : p) scores.push_back(static_cast<float>(std::log(x)));
        Sampler(o).warp(scores);
        Ids ids;
        for (std::size_t i = 0; i < scores.size(); ++i)
            if (scores[i] != kNever) ids.push_back(static_cast<int32_t>(i));
        return ids;
    };
    const std::vector<double> p{0.1, 0.5, 0.15, 0.2, 0.05};
    CHECK(kept(p) == Ids{0, 1, 2, 3, 4});
    o.min_p = 0.25;
    CHECK(kept(p) == Ids{1, 2, 3});
    o.min_p = 0.35;
    CHECK(kept(p) == Ids{1, 3});
    o.min_p = 1.0;
    CHECK(kept(p) == Ids{1});
    CHECK(kept({0.3, 0.1, 0.3, 0.3}) == Ids{0, 2, 3}); // as likely as the most likely one
    o.min_p = 0.35;
    o.temperature = 2.0; // the ratios are square roots
    CHECK(kept(p) == Ids{0, 1, 2, 3});
    o.top_k = 3;
    CHECK(kept(p) == Ids{1, 2, 3});
    o.top_p = 0.1;
    CHECK(kept(p) == Ids{1});
    o = {};
    o.min_p = 1e-300;
    CHECK(kept(p).size() == 5);
    CHECK(kept_range(0.0) == kept_range(1e-300));
}

TEST_CASE("sampler: draws follow the probabilities, and depend only on seed, row and position") {
    Options o;
    o.sample = true;
    o.seed = 7;
    const Sampler sampler(o);
    const double p[] = {0.5, 0.2, 0.3};
    int counts[3] = {};
    constexpr int kDraws = 20000;
    for (uint64_t i = 0; i < kDraws; ++i) {
        std::vector<float> scores{std::log(0.5f), std::log(0.2f), std::log(0.3f)}, again = scores;
        const auto token = sampler.choose(i % 100, i / 100, scores);
        REQUIRE(token.ok());
        ++counts[token.value()];
        CHECK(sampler.choose(i % 100, i / 100, again).value() == token.value());
    }
    for (int k = 0; k < 3; ++k) // within five standard deviations
        CHECK(std::abs(counts[k] - p[k] * kDraws) < 5 * std::sqrt(kDraws * p[k] * (1 - p[k])));
    CHECK(draw_bits(7, 0, 0) != draw_bits(8, 0, 0));
    CHECK(draw_bits(7, 0, 1) != draw_bits(7, 1, 0));
}

TEST_CASE("sampler: greedy takes the first of equal scores; scores without a valid maximum are an error") {
    const Sampler sampler{Options{}};
    std::vector<float> scores{1, 3, 3};
    CHECK(sampler.choose(0, 0, scores).value() == 1);
    scores = {1, std::nanf(""), 2};
    CHECK(sampler.choose(4, 9, scores).message().find("row 4") != std::string::npos);
    scores = {kNever, kNever};
    CHECK(sampler.choose(0, 3, scores).message().find("forbidden") != std::string::npos);
}
