// Gradients against finite differences: the operation is placed in the middle of a small graph, and the gradients of
// differentiate() are compared with differences of the loss in float64.
#pragma once

#include "base/philox.hpp"
#include "graph/gradient.hpp"
#include "support.hpp"

#include <functional>

namespace hekla::test {

using namespace graph;

// A parameter with values in [low, high] (after the prelude), or the given values.
struct Variable {
    Shape shape;
    double low = -1.0;
    double high = 1.0;
    std::vector<double> values = {};
};

struct GradientCase {
    std::string name;
    std::vector<Variable> variables;
    // Applies the operation to the variables; all float outputs that it returns, except hidden ones, contribute to the
    // loss.
    std::function<std::vector<ValueId>(Builder&, std::span<const ValueId>)> describe;
    double tolerance = 1e-7; // relative to the largest gradient of a parameter
};

// The whole graph of a case, differentiated, with parameters p0, p1, ...
struct DifferentiatedCase {
    Graph graph;
    Feeds feeds;
};

// prelude: x = 2 p + 0.5. Loss: the sum of the outputs times random numbers, plus the sum of p times others, so that
// each parameter is read twice.
inline Result<DifferentiatedCase> differentiate_case(const GradientCase& c) {
    DifferentiatedCase result;
    RandomStream random(7, c.name.size());
    Builder b;
    const auto coefficients = [&](const Shape& shape) {
        std::vector<double> values(static_cast<std::size_t>(shape.elements()));
        for (double& value : values) value = 2 * random.next_unit() - 1;
        return b.constant(Kind::float_, shape, std::move(values));
    };
    const auto weighted_sum = [&](ValueId x) {
        std::vector<int64_t> axes;
        for (int64_t axis = 0; axis < b.shape(x).rank(); ++axis) axes.push_back(axis);
        return b(Op::sum, {b(Op::mul, {x, coefficients(b.shape(x))})}, {{"axes", axes}});
    };
    std::vector<ValueId> values;
    ValueId total = b.scalar(0);
    for (std::size_t i = 0; i < c.variables.size(); ++i) {
        const Variable& variable = c.variables[i];
        const std::string name = fmt::format("p{}", i);
        Tensor& tensor = result.feeds.parameters[name] = {Kind::float_, variable.shape, variable.values};
        tensor.data.resize(static_cast<std::size_t>(variable.shape.elements()));
        for (double& value : tensor.data) {
            const double x =
                variable.values.empty() ? variable.low + (variable.high - variable.low) * random.next_unit() : value;
            value = (x - 0.5) / 2;
        }
        const ValueId p = b.parameter(name, variable.shape, 0, 0, 0, 0);
        values.push_back(b(Op::add, {b(Op::mul, {p, b.scalar(2)}), b.scalar(0.5)}));
        total = b(Op::add, {total, weighted_sum(p)});
    }
    b.scope_begin("middle");
    const std::vector<ValueId> outputs = c.describe(b, values);
    b.scope_end();
    if (outputs.empty() && b.ok()) b.fail(invalid_argument("the case has no output"));
    for (const ValueId y : outputs) {
        if (!b.ok()) break;
        const Value& value = b.graph().value(y);
        const bool hidden = info(b.graph().producer(y)).outputs[value.output].hidden; // it has no gradient of its own
        if (is_float(value.kind) && !hidden) total = b(Op::add, {total, weighted_sum(y)});
    }
    if (b.ok()) b.loss("loss", total, b.scalar(1), 1.0);
    HK_ASSIGN(Graph described, b.finish());
    HK_ASSIGN(result.graph, differentiate(std::move(described)));
    HK_TRY(check(result.graph));
    result.feeds.seed = 1234567;
    result.feeds.step = 3;
    return result;
}

inline Result<double> loss_of(const DifferentiatedCase& c, const Feeds& feeds) {
    const ValueId loss = c.graph.outputs.at("loss");
    HK_ASSIGN(const std::vector<Tensor> values, evaluate(c.graph, feeds, {&loss, 1}));
    return values[0].data[0];
}

// Returns the derivative of the loss along a direction in parameter `name`, by a fourth-order difference.
inline Result<double> difference(const DifferentiatedCase& c, const std::string& name,
                                 const std::vector<double>& direction) {
    constexpr double h = 2e-4; // error about h^4 and 1e-16 / h: both far below 1e-9
    const auto shifted = [&](double by) -> Result<double> {
        Feeds feeds = c.feeds;
        std::vector<double>& data = feeds.parameters.at(name).data;
        for (std::size_t i = 0; i < data.size(); ++i) data[i] += by * direction[i];
        return loss_of(c, feeds);
    };
    HK_ASSIGN(const double far_up, shifted(2 * h));
    HK_ASSIGN(const double up, shifted(h));
    HK_ASSIGN(const double down, shifted(-h));
    HK_ASSIGN(const double far_down, shifted(-2 * h));
    return (far_down - 8 * down + 8 * up - far_up) / (12 * h);
}

// Checks every parameter's gradient: some elements individually, and all of them along two random directions.
inline void check_gradients(const GradientCase& c) {
    INFO("case: ", c.name);
    auto made = differentiate_case(c);
    REQUIRE_MESSAGE(made.ok(), made.message());
    const DifferentiatedCase& d = made.value();
    RandomStream random(11, 0);
    for (const auto& [name, parameter] : d.feeds.parameters) {
        INFO("parameter ", name, " ", parameter.shape.text());
        const auto found = d.graph.outputs.find("grad." + name);
        REQUIRE(found != d.graph.outputs.end());
        const auto evaluated = evaluate(d.graph, d.feeds, {&found->second, 1});
        REQUIRE_MESSAGE(evaluated.ok(), evaluated.message());
        const Tensor& gradient = evaluated.value()[0];
        REQUIRE(gradient.shape == parameter.shape);
        double largest = 1e-3;
        for (const double g : gradient.data) largest = std::max(largest, std::abs(g));
        const auto compare = [&](const std::vector<double>& direction, double scale) {
            double expected = 0;
            for (std::size_t i = 0; i < direction.size(); ++i) expected += gradient.data[i] * direction[i];
            const auto measured = difference(d, name, direction);
            REQUIRE_MESSAGE(measured.ok(), measured.message());
            CAPTURE(expected);
            CAPTURE(measured.value());
            CHECK(std::abs(expected - measured.value()) <= c.tolerance * scale);
        };
        const std::size_t size = gradient.data.size();
        for (int along = 0; along < 2; ++along) {
            std::vector<double> direction(size);
            for (double& x : direction) x = random.next_u32() % 2 == 0 ? 1 : -1;
            compare(direction, largest * static_cast<double>(std::max<std::size_t>(size, 1)));
        }
        for (std::size_t k = 0; k < std::min<std::size_t>(size, 12); ++k) {
            INFO("element ", k);
            std::vector<double> direction(size);
            direction[size <= 12 ? k : random.next_below(size)] = 1;
            compare(direction, largest);
        }
    }
}

} // namespace hekla::test
