#include "score/regression.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace hekla::score {
namespace {

Status check(std::span<const double> x, std::span<const double> y, std::size_t least) {
    if (x.size() != y.size() || x.size() < least)
        return invalid_argument(fmt::format("{} and {} numbers cannot be compared; as many of each were expected, at "
                                            "least {}",
                                            x.size(), y.size(), least));
    for (const std::span<const double> list : {x, y})
        for (std::size_t i = 0; i < list.size(); ++i)
            if (!std::isfinite(list[i])) return invalid_argument(fmt::format("number {} is {}", i, list[i]));
    return {};
}

std::vector<double> ranks(std::span<const double> values) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
    std::vector<double> out(values.size());
    for (std::size_t begin = 0; begin < order.size();) {
        std::size_t end = begin;
        while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
        for (std::size_t i = begin; i < end; ++i) out[order[i]] = 0.5 * static_cast<double>(begin + end - 1);
        begin = end;
    }
    return out;
}

} // namespace

Result<double> pearson(std::span<const double> x, std::span<const double> y) {
    HK_TRY(check(x, y, 2));
    const auto size = static_cast<double>(x.size());
    const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / size;
    const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / size;
    double xx = 0.0, yy = 0.0, xy = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double dx = x[i] - mean_x, dy = y[i] - mean_y;
        xx += dx * dx;
        yy += dy * dy;
        xy += dx * dy;
    }
    // For constant values, squares are at most the rounding error of their mean.
    const auto flat = [&](double squares, double mean) {
        return squares <= size * 1e-30 * mean * mean || squares == 0.0;
    };
    if (flat(xx, mean_x) || flat(yy, mean_y))
        return invalid_argument("one of the lists is the same number throughout: no correlation is defined");
    return std::clamp(xy / (std::sqrt(xx) * std::sqrt(yy)), -1.0, 1.0);
}

Result<double> spearman(std::span<const double> x, std::span<const double> y) {
    HK_TRY(check(x, y, 2));
    return pearson(ranks(x), ranks(y));
}

Result<double> mean_squared_error(std::span<const double> x, std::span<const double> y) {
    HK_TRY(check(x, y, 1));
    double sum = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += (x[i] - y[i]) * (x[i] - y[i]);
    return sum / static_cast<double>(x.size());
}

Result<double> perplexity(double nats, double tokens) {
    if (!(tokens > 0.0)) return invalid_argument("perplexity needs at least one token; the evaluation set is empty");
    return std::exp(nats / tokens);
}

Result<double> bits_per_byte(double nats, double bytes) {
    if (!(bytes > 0.0)) return invalid_argument("bits per byte need at least one byte; the evaluation set is empty");
    return nats / (std::log(2.0) * bytes);
}

} // namespace hekla::score
