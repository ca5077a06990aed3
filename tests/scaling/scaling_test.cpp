// Fits of scaling laws to points of a known law, with and without noise, and what is refused.
#include "scaling/fit.hpp"

#include "base/philox.hpp"
#include "support/test_folder.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fstream>

namespace scaling_test {

using namespace hekla::scaling;

namespace {

// Epoch's constants for Chinchilla's models.
Law chinchilla() { return {Form::chinchilla, {std::log(1.8172), std::log(482.01), std::log(2085.43), 0.3478, 0.3658}}; }
Law kaplan() { return {Form::kaplan, {std::log(8.8e13), std::log(5.4e13), 0.076, 0.095}}; }
Law droppo() { return {Form::droppo, {std::log(1.6), std::log(8e8), std::log(6e9), 0.15, 0.2, 0.4}}; }

std::vector<Point> ladder(const Law& law, double noise, uint64_t seed) {
    hekla::RandomStream random(seed, 0);
    std::vector<Point> points;
    for (const double n : {1e7, 3e7, 1e8, 3e8, 1e9, 3e9})
        for (const double d : {2e8, 1e9, 5e9, 2e10}) {
            Point p;
            p.name = fmt::format("{:g}-{:g}", n, d);
            p.parameters = n;
            p.without_embeddings = 0.8 * n;
            p.tokens = d;
            p.flops = (1e7 + 6.0 * n) * d;
            p.loss = law.loss(n, d) * std::exp(noise * random.next_normal());
            points.push_back(p);
        }
    return points;
}

double relative(double a, double b) { return std::abs(a / b - 1.0); }

} // namespace

TEST_CASE("the gradient of a law equals differences") {
    for (const Law& law : {chinchilla(), kaplan(), droppo()}) {
        const std::array<double, 6> gradient = law.gradient(3e7, 5e9);
        for (std::size_t i = 0; i < law.count(); ++i) {
            CAPTURE(i);
            Law more = law, less = law;
            more.fitted[i] += 1e-6;
            less.fitted[i] -= 1e-6;
            const double slope = (more.log_loss(3e7, 5e9) - less.log_loss(3e7, 5e9)) / 2e-6;
            CHECK(gradient[i] == doctest::Approx(slope).epsilon(1e-6));
        }
    }
}

TEST_CASE("points without noise give the constants of their law") {
    for (const Law& law : {chinchilla(), kaplan(), droppo()}) {
        CAPTURE(form_name(law.form));
        const auto found = fit(ladder(law, 0.0, 1), {.form = law.form, .resamples = 0});
        REQUIRE(found.ok());
        for (std::size_t i = 0; i < law.count(); ++i) {
            CAPTURE(constant_names(law.form)[i]);
            CHECK(relative(found->law.constant(i), law.constant(i)) < 1e-3);
        }
        CHECK(found->measured_cost);
        CHECK(relative(found->cost.fixed, 1e7) < 1e-6);
        CHECK(relative(found->cost.per_parameter, 6.0) < 1e-6);
    }
}

TEST_CASE("fits of noisy points predict larger models inside their intervals, and resist an outlier") {
    const Law law = chinchilla();
    int inside = 0, runs = 0;
    for (const uint64_t seed : {1, 2, 3, 4, 5}) {
        std::vector<Point> points = ladder(law, 0.01, seed);
        points[5].loss *= 1.5; // one run that did not converge
        hekla::RandomStream random(seed, 7);
        for (const double n : {1e10, 3e10}) {
            Point p{.name = "target", .parameters = n, .tokens = 1e11, .held_out = true};
            p.loss = law.loss(n, p.tokens) * std::exp(0.01 * random.next_normal());
            points.push_back(p);
        }
        const auto found = fit(points, {.resamples = 200, .seed = seed});
        REQUIRE(found.ok());
        CHECK(found->residuals.size() == 24);
        const std::vector<Prediction> predicted = predictions(found.value(), points);
        REQUIRE(predicted.size() == 2);
        for (const Prediction& one : predicted) {
            CHECK(std::abs(one.error) < 0.06);
            CHECK(std::abs(one.error) < std::abs(one.as_best));
            CHECK(one.range.low < one.loss);
            inside += one.point->loss >= one.range.low && one.point->loss <= one.range.high ? 1 : 0;
            ++runs;
        }
    }
    CHECK(inside >= runs * 7 / 10);
}

TEST_CASE("the law that predicts larger models best is the first") {
    for (const Law& law : {chinchilla(), kaplan(), droppo()}) {
        CAPTURE(form_name(law.form));
        std::vector<Point> points = ladder(law, 0.0, 1);
        const auto found = fit_all(points, kForms, {.resamples = 0});
        REQUIRE(found.ok());
        REQUIRE(found->size() == 6); // over all parameters, and without embeddings
        CHECK(found->front().law.form == law.form);
        CHECK(found->front().backtest.value() < 1e-3);
        CHECK(found->back().backtest.value() > found->front().backtest.value());
        points.resize(6); // of one size and a half
        const auto few = fit_all(points, kForms, {.resamples = 0});
        REQUIRE(few.ok());
        CHECK(few->size() == 4); // not droppo
        CHECK(few->front().law.form == Form::chinchilla);
        CHECK(!few->front().backtest);
    }
}

TEST_CASE("the same points and seed give the same fit") {
    const std::vector<Point> points = ladder(chinchilla(), 0.01, 3);
    const auto a = fit(points, {.resamples = 20}), b = fit(points, {.resamples = 20});
    REQUIRE(a.ok());
    REQUIRE(b.ok());
    CHECK(a->law.fitted == b->law.fitted);
    REQUIRE(a->resampled.size() == 20);
    for (std::size_t i = 0; i < 20; ++i) CHECK(a->resampled[i].fitted == b->resampled[i].fitted);
}

TEST_CASE("the optimum of a number of operations equals its closed form") {
    const Law law = chinchilla();
    const double a = law.constant(1), b = law.constant(2), alpha = law.constant(3), beta = law.constant(4),
                 flops = 5.76e23;
    const Optimum found = optimum(law, Cost{}, flops);
    const double g = std::pow(alpha * a / (beta * b), 1.0 / (alpha + beta));
    CHECK(relative(found.parameters, g * std::pow(flops / 6.0, beta / (alpha + beta))) < 1e-4);
    CHECK(relative(found.tokens, std::pow(flops / 6.0, alpha / (alpha + beta)) / g) < 1e-4);
    for (const double part : {0.8, 1.25}) CHECK(law.loss(found.parameters * part, found.tokens / part) > found.loss);
}

TEST_CASE("the tokens for a loss lead to that loss") {
    for (const Law& law : {chinchilla(), kaplan(), droppo()}) {
        const double loss = law.loss(1e9, 3e10);
        REQUIRE(law.tokens_for(1e9, loss));
        CHECK(relative(*law.tokens_for(1e9, loss), 3e10) < 1e-9);
        CHECK_FALSE(law.tokens_for(1e6, loss));
    }
}

TEST_CASE("what cannot be fitted is refused") {
    std::vector<Point> points = ladder(chinchilla(), 0.0, 1);
    const auto message = [](const std::vector<Point>& given, const FitOptions& options = {}) {
        const auto found = fit(given, options);
        REQUIRE_FALSE(found.ok());
        CHECK(found.code() == hekla::Code::invalid_argument);
        return found.message();
    };
    CHECK(message({points.begin(), points.begin() + 5}).find("at least 6") != std::string::npos);
    std::vector<Point> held = points;
    for (std::size_t i = 4; i < held.size(); ++i) held[i].held_out = true;
    CHECK(message(held).find("4 are given") != std::string::npos);
    std::vector<Point> one_size = points;
    for (Point& p : one_size) p.parameters = 1e7;
    CHECK(message(one_size).find("several sizes") != std::string::npos);
    points[2].without_embeddings = 0.0;
    CHECK(message(points, {.without_embeddings = true}).find("1e+07-5e+09") != std::string::npos);
}

TEST_CASE("models that are better than the floor of their law are found") {
    const std::vector<Point> points = ladder(chinchilla(), 0.0, 1);
    auto found = fit(points, {.resamples = 0});
    REQUIRE(found.ok());
    CHECK(below_floor(found.value(), points).empty());
    std::vector<Point> more = points;
    more.push_back(points[0]);
    more.back().loss = found->law.floor() * 0.99;
    const std::vector<const Point*> below = below_floor(found.value(), more);
    REQUIRE(below.size() == 1);
    CHECK(below[0] == &more.back());
    // A constant loss is its own floor.
    for (Point& p : more) p.loss = 2.0;
    found = fit(more, {.resamples = 0});
    REQUIRE(found.ok());
    CHECK(below_floor(found.value(), more).empty());
}

TEST_CASE("points are written and read again; errors name file, line and column") {
    const hekla::test::TestFolder folder;
    const std::string file = (folder.path() / "points.csv").string();
    const auto write = [&](const std::string& text) { std::ofstream(file) << text; };
    std::vector<Point> points = ladder(chinchilla(), 0.01, 1);
    points[1].held_out = true;
    points[2].name = "a, \"quoted\" name";
    points[3].flops = points[3].without_embeddings = 0.0;
    write(points_csv(points));
    const auto again = read_points(file, {});
    REQUIRE_MESSAGE(again.ok(), again.message());
    REQUIRE(again->size() == points.size());
    for (std::size_t i = 0; i < points.size(); ++i) {
        const Point &a = points[i], &b = again.value()[i];
        CHECK(a.name == b.name);
        CHECK(a.parameters == b.parameters);
        CHECK(a.without_embeddings == b.without_embeddings);
        CHECK(a.tokens == b.tokens);
        CHECK(a.flops == b.flops);
        CHECK(a.loss == b.loss);
        CHECK(a.held_out == b.held_out);
    }
    const auto refused = [&](const std::string& text, const Columns& columns = {}) {
        write(text);
        const auto read = read_points(file, columns);
        REQUIRE_FALSE(read.ok());
        return read.message();
    };
    CHECK(refused("parameters,tokens,loss\n10,20,3\n10,x,3\n").find("points.csv: line 3: column 'tokens' is 'x'") !=
          std::string::npos);
    CHECK(refused("parameters,tokens,loss\n10,20,nan\n").find("column 'loss' is 'nan'") != std::string::npos);
    CHECK(refused("parameters,loss\n10,3\n").find("neither 'tokens' nor 'flops'") != std::string::npos);
    CHECK(refused("parameters,tokens\n10,3\n").find("loss") != std::string::npos);
    CHECK(refused("N,tokens,loss\n10,3,1\n", {{"parameter", "N"}}).find("'parameter' is not a column") !=
          std::string::npos);
    write("Model Size,Training FLOP,loss\n1e9,6e19,2.5\n");
    const auto renamed = read_points(file, {{"parameters", "Model Size"}, {"flops", "Training FLOP"}});
    REQUIRE_MESSAGE(renamed.ok(), renamed.message());
    CHECK(renamed.value()[0].tokens == doctest::Approx(1e10));
}

} // namespace scaling_test
