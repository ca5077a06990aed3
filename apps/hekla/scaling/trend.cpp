#include "scaling/trend.hpp"

#include <cmath>

namespace hekla::scaling {
namespace {

constexpr double kStandardErrors = 2.0; // that a difference has to exceed

} // namespace

const char* trend_name(Trend trend) {
    switch (trend) {
    case Trend::flat: return "flat";
    case Trend::better: return "better with size";
    case Trend::emergence: return "emerges";
    case Trend::inverse: return "worse with size";
    }
    return "";
}

FoundTrend trend_of(std::span<const TrendScore> scores, bool higher_is_better) {
    const double sign = higher_is_better ? 1.0 : -1.0;
    const auto gain = [&](const TrendScore& from, const TrendScore& to) { return sign * (to.value - from.value); };
    const auto counts = [&](const TrendScore& from, const TrendScore& to) {
        return std::abs(to.value - from.value) > kStandardErrors * std::hypot(from.error, to.error);
    };
    const TrendScore &first = scores.front(), &last = scores.back();
    if (!counts(first, last)) return {};
    const double all = gain(first, last);
    if (all < 0.0) return {Trend::inverse, 0};
    std::size_t at = 1; // the first score that differs from the smallest model's
    while (at < scores.size() && !(counts(first, scores[at]) && gain(first, scores[at]) > 0.0)) ++at;
    const bool flat_before = at > 1;
    if (flat_before && at < scores.size() && gain(scores[at - 1], scores[at]) >= 0.5 * all)
        return {Trend::emergence, at};
    return {Trend::better, 0};
}

} // namespace hekla::scaling
