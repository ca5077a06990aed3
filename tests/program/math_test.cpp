// shaders/math.glsl through the pointwise kernels: within 4 units in the last place of float32.
#include "program/kernel_case.hpp"

#include <limits>

namespace math_test {

using namespace hekla;
using namespace hekla::test;

namespace {

// Distance in units of the last place of the expected float32.
double units(double got, double expected) {
    if (std::isnan(expected)) return std::isnan(got) ? 0 : 1e9;
    const auto rounded = static_cast<float>(expected);
    if (static_cast<float>(got) == rounded) return 0;
    if (!std::isfinite(rounded) || !std::isfinite(got)) return 1e9;
    int exponent = 0;
    std::frexp(rounded, &exponent);
    const double unit = std::ldexp(1.0, std::max(exponent, -125) - 24);
    return std::abs(got - expected) / unit;
}

std::vector<double> points(double low, double high) {
    std::vector<double> x;
    for (int i = 0; i < 4000; ++i)
        x.push_back(static_cast<double>(static_cast<float>(low + (high - low) * i / 3999.0)));
    // Around 0, where relative errors are largest.
    for (double tiny = 1e-30; tiny < 1; tiny *= 7) {
        if (tiny <= high) x.push_back(static_cast<double>(static_cast<float>(tiny)));
        if (-tiny >= low) x.push_back(static_cast<double>(static_cast<float>(-tiny)));
    }
    return x;
}

} // namespace

TEST_CASE("elementary functions within 4 ulp") {
    Bench bench;
    struct Function {
        Op op;
        double (*exact)(double);
        double low, high;
    };
    const Function functions[] = {
        {Op::exp, [](double x) { return std::exp(x); }, -87, 88},
        {Op::log, [](double x) { return std::log(x); }, 1e-30, 50},
        {Op::log1p, [](double x) { return std::log1p(x); }, -0.99, 8},
        {Op::tanh, [](double x) { return std::tanh(x); }, -11, 11},
        {Op::erf, [](double x) { return std::erf(x); }, -5, 5},
        {Op::sin, [](double x) { return std::sin(x); }, -3, 3},
        {Op::cos, [](double x) { return std::cos(x); }, -1.5, 1.5},
        {Op::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -80, 20},
    };
    for (const Function& f : functions) {
        const std::vector<double> x = points(f.low, f.high);
        Builder b;
        b.output("y", b(f.op, {b.input("x", Kind::float_, {static_cast<int64_t>(x.size())})}));
        const Graph graph = finished(std::move(b));
        graph::Feeds feeds;
        feeds.fields["x"] = {Kind::float_, {static_cast<int64_t>(x.size())}, x};
        const Outcome got = run_on_device(*bench, graph, feeds, {});
        double worst = 0;
        double where = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
            const double u = units(got.at("y").data[i], f.exact(x[i]));
            if (u > worst) {
                worst = u;
                where = x[i];
            }
        }
        CAPTURE(graph::info(f.op).name);
        CHECK_MESSAGE(worst <= 4, "worst " << worst << " at " << where);
    }
}

} // namespace math_test
