// Gradients as values of the graph (gradient_of), which are differentiated again, and gradients that a graph gives
// itself (with_gradient).
#include "gradient_cases.hpp"

#include "graph/passes/simplify.hpp"
#include "graph/text.hpp"

#include <fmt/ranges.h>
#include <set>

namespace hekla::test::gradient_of_test {

namespace {

using Values = std::span<const ValueId>;

std::vector<int64_t> all_axes(const Builder& b, ValueId x) {
    std::vector<int64_t> axes;
    for (int64_t axis = 0; axis < b.shape(x).rank(); ++axis) axes.push_back(axis);
    return axes;
}

ValueId sum_all(Builder& b, ValueId x) { return b(Op::sum, {x}, {{"axes", all_axes(b, x)}}); }

// The gradients of a sum of squares of a case's outputs, whose own gradients are second derivatives of the operation.
GradientCase second(const GradientCase& first) {
    GradientCase c = first;
    c.name = "gradient of " + first.name + ", again";
    c.tolerance = 1e-6;
    c.describe = [first](Builder& b, Values x) {
        ValueId total = b.scalar(0);
        for (const ValueId y : first.describe(b, x)) {
            if (!b.ok()) return std::vector<ValueId>{};
            const Value value = b.graph().value(y);
            const bool hidden = info(b.graph().producer(y)).outputs[value.output].hidden;
            if (is_float(value.kind) && !hidden) total = b(Op::add, {total, sum_all(b, b(Op::mul, {y, y}))});
        }
        std::vector<ValueId> gradients;
        for (const ValueId variable : x)
            if (b.ok()) gradients.push_back(b(Op::gradient_of, {total, variable}));
        return gradients;
    };
    return c;
}

Tensor evaluated(const Graph& graph, const Feeds& feeds, const std::string& output) {
    const ValueId wanted = graph.outputs.at(output);
    auto values = evaluate(graph, feeds, {&wanted, 1});
    REQUIRE_MESSAGE(values.ok(), values.message());
    return values.take()[0];
}

std::string refusal(const std::function<void(Builder&)>& describe) {
    Builder b;
    describe(b);
    const Result<Graph> graph = b.finish();
    CHECK(!graph.ok());
    return std::string(graph.message());
}

void contains(const std::string& message, const char* part) {
    CHECK_MESSAGE(message.find(part) != std::string::npos, message);
}

} // namespace

TEST_CASE("what gradient_of returns agrees with finite differences where it has a gradient, and is refused elsewhere") {
    std::set<std::string> refused;
    int checked = 0;
    for (const auto& family : {pointwise_cases(), shape_cases(), reduce_cases(), layer_cases(), recurrent_cases(),
                               attention_cases(), window_cases(), loop_cases()})
        for (const GradientCase& first : family) {
            const GradientCase c = second(first);
            const auto made = differentiate_case(c);
            if (made.ok()) {
                check_gradients(c);
                ++checked;
                continue;
            }
            const std::string message(made.message());
            if (message.find("does not depend on x") != std::string::npos) continue;
            const std::size_t end = message.find(" has no gradient");
            REQUIRE_MESSAGE(end != std::string::npos, first.name, ": ", message);
            refused.insert(message.substr(message.rfind(' ', end - 1) + 1, end - message.rfind(' ', end - 1) - 1));
        }
    CHECK(checked > 100);
    const std::set<std::string> expected{"attention_gradient", "cross_entropy_gradient",
                                         "gru_gradient",       "linear_cross_entropy_gradient",
                                         "lstm_gradient",      "max_pool2d_gradient"};
    CHECK_MESSAGE(refused == expected, fmt::format("{}", fmt::join(refused, " ")));
}

TEST_CASE("gradient_of is the gradient that differentiate computes") {
    Builder b;
    const ValueId x = b.parameter("x", {2, 3}, 0, 0, 0, 0), w = b.parameter("w", {4, 3}, 0, 0, 0, 0);
    const ValueId y = b(Op::gelu, {b(Op::linear, {x, w})});
    b.scope_begin("inside");
    b.output("dx", b(Op::gradient_of, {y, x}));
    b.output("dw", b(Op::gradient_of, {y, w}));
    b.scope_end();
    b.loss("loss", sum_all(b, y), b.scalar(1), 1.0);
    auto described = b.finish();
    REQUIRE_MESSAGE(described.ok(), described.message());
    REQUIRE(check(described.value()).ok());
    const auto read = parse(print(described.value()));
    REQUIRE_MESSAGE(read.ok(), read.message());
    const auto graph = differentiate(described.take());
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    Feeds feeds;
    feeds.parameters["x"] = floats({2, 3}, {0.1, -0.5, 2, 1, 0.3, -1});
    feeds.parameters["w"] = floats({4, 3}, {1, 2, -1, 0.5, 0, 1, -0.2, 0.3, 0.4, 1, 1, 1});
    CHECK(evaluated(graph.value(), feeds, "dx").data == evaluated(graph.value(), feeds, "grad.x").data);
    CHECK(evaluated(graph.value(), feeds, "dw").data == evaluated(graph.value(), feeds, "grad.w").data);
}

TEST_CASE("with_gradient: the value is y, and the gradients are the given ones") {
    Builder b;
    const ValueId x = b.parameter("x", {3}, 0, 0, 0, 0), z = b.parameter("z", {3}, 0, 0, 0, 0);
    const ValueId y = b(Op::round, {x});
    const ValueId dy = b(Op::incoming_gradient, {y});
    // x gets the gradient, clamped; z gets it times x, though y was not computed from z.
    const ValueId clamped = b(Op::clamp, {dy}, {{"low", -1.0}, {"high", 1.0}});
    const ValueId result = b(Op::with_gradient, {y, dy, x, clamped, z, b(Op::mul, {dy, x})});
    const ValueId weights = b.constant(Kind::float_, {3}, {0.5, 4, -7});
    b.output("y", result);
    b.loss("loss", sum_all(b, b(Op::mul, {result, weights})), b.scalar(1), 1.0);
    auto described = b.finish();
    REQUIRE_MESSAGE(described.ok(), described.message());
    auto read = parse(print(described.value()));
    REQUIRE_MESSAGE(read.ok(), read.message());
    const auto graph = differentiate(read.take());
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    const auto simple = simplify(graph.value());
    REQUIRE_MESSAGE(simple.ok(), simple.message());
    for (const Node& node : simple->nodes) {
        CHECK(node.op != Op::with_gradient);
        CHECK(node.op != Op::incoming_gradient);
    }
    Feeds feeds;
    feeds.parameters["x"] = floats({3}, {1.25, -2.5, 3});
    feeds.parameters["z"] = floats({3}, {0, 0, 0});
    for (const Graph* one : {&graph.value(), &simple.value()}) {
        check_values(evaluated(*one, feeds, "y"), {1, -2, 3});
        check_values(evaluated(*one, feeds, "grad.x"), {0.5, 1, -1});
        check_values(evaluated(*one, feeds, "grad.z"), {0.625, -10, -21});
    }
}

TEST_CASE("a gradient that was given is differentiated again") {
    // f(x) = x^3 with the gradient 5 x^2 dy: gradient_of is 5 x^2, and its own gradient 10 x.
    Builder b;
    const ValueId x = b.parameter("x", {2}, 0, 0, 0, 0);
    const ValueId y = b(Op::pow, {x, b.scalar(3)});
    const ValueId dy = b(Op::incoming_gradient, {y});
    const ValueId rule = b(Op::mul, {dy, b(Op::mul, {b(Op::mul, {x, x}), b.scalar(5)})});
    const ValueId dx = b(Op::gradient_of, {b(Op::with_gradient, {y, dy, x, rule}), x});
    b.output("dx", dx);
    b.loss("loss", sum_all(b, dx), b.scalar(1), 1.0);
    auto described = b.finish();
    REQUIRE_MESSAGE(described.ok(), described.message());
    const auto graph = differentiate(described.take());
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    Feeds feeds;
    feeds.parameters["x"] = floats({2}, {2, -3});
    check_values(evaluated(graph.value(), feeds, "dx"), {20, 45});
    check_values(evaluated(graph.value(), feeds, "grad.x"), {20, -30});
}

TEST_CASE("both are allowed in a recompute region, and change no result there") {
    const auto gradients = [](bool region) {
        Builder b;
        const ValueId x = b.parameter("x", {3}, 0, 0, 0, 0), w = b.parameter("w", {3}, 0, 0, 0, 0);
        if (region) b.recompute_begin();
        const ValueId y = b(Op::tanh, {b(Op::mul, {x, w})});
        const ValueId dx = b(Op::gradient_of, {y, x});
        const ValueId dy = b(Op::incoming_gradient, {y});
        const ValueId inside = b(Op::mul, {b(Op::with_gradient, {y, dy, x, b(Op::mul, {dy, w})}), dx});
        if (region) {
            CHECK(b.graph().producer(dx).region != 0);
            b.recompute_end();
        }
        b.loss("loss", sum_all(b, inside), b.scalar(1), 1.0);
        auto described = b.finish();
        REQUIRE_MESSAGE(described.ok(), described.message());
        const auto graph = differentiate(described.take());
        REQUIRE_MESSAGE(graph.ok(), graph.message());
        Feeds feeds;
        feeds.parameters["x"] = floats({3}, {0.5, -1, 2});
        feeds.parameters["w"] = floats({3}, {1, 0.25, -0.5});
        return std::pair{evaluated(graph.value(), feeds, "grad.x").data,
                         evaluated(graph.value(), feeds, "grad.w").data};
    };
    CHECK(gradients(true) == gradients(false));
}

TEST_CASE("gradients that do not fit are refused") {
    contains(refusal([](Builder& b) {
                 const ValueId x = b.parameter("x", {3}, 0, 0, 0, 0), z = b.parameter("z", {3}, 0, 0, 0, 0);
                 b.output("dx", b(Op::gradient_of, {b(Op::mul, {x, x}), z}));
             }),
             "does not depend on x");
    contains(refusal([](Builder& b) {
                 const ValueId x = b.parameter("x", {3}, 0, 0, 0, 0);
                 b.output("dx", b(Op::gradient_of, {b(Op::round, {x}), x}));
             }),
             "does not depend on x");
    contains(refusal([](Builder& b) {
                 const ValueId x = b.parameter("x", {3}, 0, 0, 0, 0);
                 b.output("y", b(Op::with_gradient, {x, x, x, x}));
             }),
             "a result of parameter, expected one of incoming_gradient");
    contains(refusal([](Builder& b) {
                 const ValueId x = b.parameter("x", {3}, 0, 0, 0, 0), dy = b(Op::incoming_gradient, {x});
                 b.output("y", b(Op::with_gradient, {x, dy, x, sum_all(b, dy)}));
             }),
             "part 2 is [3] and its gradient []");
    contains(refusal([](Builder& b) {
                 const ValueId x = b.parameter("x", {3}, 0, 0, 0, 0), dy = b(Op::incoming_gradient, {x});
                 b.output("y", b(Op::with_gradient, {x, dy, x, dy, x, dy}));
             }),
             "part 4 is the same value as part 2");
    contains(refusal([](Builder& b) {
                 const ValueId x = b.parameter("x", {3}, 0, 0, 0, 0), dy = b(Op::incoming_gradient, {x});
                 b.output("y", b(Op::with_gradient, {x, dy, x}));
             }),
             "3 parts, expected y");
    contains(refusal([](Builder& b) {
                 const ValueId x = b.parameter("x", {3}, 0, 0, 0, 0), dy = b(Op::incoming_gradient, {x});
                 b.output("y", b(Op::add, {x, dy}));
             }),
             "output 'y' reads an incoming_gradient");
}

} // namespace hekla::test::gradient_of_test
