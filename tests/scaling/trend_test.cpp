// Trends of scores over size.
#include "scaling/trend.hpp"

#include <doctest/doctest.h>
#include <vector>

namespace trend_test {

using namespace hekla::scaling;

namespace {

FoundTrend found(const std::vector<double>& values, double error, bool higher_is_better = true) {
    std::vector<TrendScore> scores;
    for (const double value : values) scores.push_back({value, error});
    return trend_of(scores, higher_is_better);
}

} // namespace

TEST_CASE("a score is flat, better or worse with size, or emerges") {
    CHECK(found({0.5}, 0.01).trend == Trend::flat);
    CHECK(found({0.5, 0.51, 0.52}, 0.01).trend == Trend::flat); // 2 standard errors of a difference are 0.028
    CHECK(found({0.5, 0.55, 0.6, 0.65}, 0.01).trend == Trend::better);
    CHECK(found({0.5, 0.45, 0.4}, 0.01).trend == Trend::inverse);
    const FoundTrend jump = found({0.25, 0.26, 0.24, 0.8, 0.9}, 0.01);
    CHECK(jump.trend == Trend::emergence);
    CHECK(jump.at == 3);
    CHECK(found({0.25, 0.8, 0.9}, 0.01).trend == Trend::better);                  // nothing flat before the step
    CHECK(found({0.25, 0.26, 0.32, 0.4, 0.5, 0.6}, 0.01).trend == Trend::better); // no step of one half
}

TEST_CASE("of a score for which lower is better, the signs are reversed") {
    CHECK(found({9.0, 5.0, 3.0}, 0.0, false).trend == Trend::better);
    CHECK(found({3.0, 5.0, 9.0}, 0.0, false).trend == Trend::inverse);
    CHECK(found({3.0, 3.0, 1.0}, 0.0, false).trend == Trend::emergence);
}

} // namespace trend_test
