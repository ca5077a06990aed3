#include "graph/truncated_normal.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace hekla::graph {
namespace {

// Returns the probability that a normal number is above x.
double tail_above(double x) { return 0.5 * std::erfc(x / std::numbers::sqrt2); }

// Returns x >= 0 with tail_above(x) = q, for q in (0, 0.5]: Wichura 1988, AS 241, PPND7, whose error is 1e-7, and two
// of Halley's steps, each of which cubes it.
double tail_quantile(double q) {
    const double r = 0.5 - q;
    double x = 0;
    if (r <= 0.425) {
        const double z = 0.180625 - r * r;
        x = r * (((59.109374720 * z + 159.29113202) * z + 50.434271938) * z + 3.3871327179) /
            (((67.187563600 * z + 78.757757664) * z + 17.895169469) * z + 1.0);
    } else {
        const double s = std::sqrt(-std::log(q));
        const double near = s - 1.6, far = s - 5.0;
        x = s <= 5.0 ? (((0.17023821103 * near + 1.3067284816) * near + 2.7568153900) * near + 1.4234372777) /
                           ((0.12021132975 * near + 0.73700164250) * near + 1.0)
                     : (((0.017337203997 * far + 0.42868294337) * far + 3.0812263860) * far + 6.6579051150) /
                           ((0.012258202635 * far + 0.24197894225) * far + 1.0);
    }
    for (int i = 0; i < 2; ++i) {
        const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
        const double step = (tail_above(x) - q) / density;
        x += step / (1 - 0.5 * x * step); // the derivative of the density is -x times it
    }
    return x;
}

} // namespace

TruncatedNormal::TruncatedNormal(double low, double high)
    : low_(low), high_(high), below_(tail_above(-low)),
      inside_(low > 0 ? tail_above(low) - tail_above(high) : tail_above(-high) - tail_above(-low)),
      above_(tail_above(high)) {}

double TruncatedNormal::number_of(uint32_t word) const {
    const double u = (static_cast<double>(word >> 8) + 0.5) * 0x1p-24;
    const double left = below_ + u * inside_, right = above_ + (1 - u) * inside_;
    const double x = left <= right ? -tail_quantile(std::min(left, 0.5)) : tail_quantile(std::min(right, 0.5));
    return std::clamp(x, low_, high_);
}

} // namespace hekla::graph
