// Taps: values that a graph names, which cost nothing until they are asked for.
#include "graph/taps.hpp"

#include "graph/gradient.hpp"
#include "graph/simplify.hpp"
#include "graph/text.hpp"
#include "support.hpp"

namespace hekla::graph::test::taps_test {

namespace {

Graph tapped_graph() {
    Builder b;
    const ValueId x = b.parameter("x", {3}, 0, 0, 0, 0);
    const ValueId square = b(Op::tap, {b(Op::mul, {x, x})}, {{"name", std::string("block.0.square")}});
    const ValueId shifted = b(Op::tap, {b(Op::add, {square, b.scalar(1)})}, {{"name", std::string("block.1.shifted")}});
    b.loss("loss", b(Op::sum, {shifted}, {{"axes", std::vector<int64_t>{0}}}), b.scalar(1), 1.0);
    auto made = b.finish();
    REQUIRE_MESSAGE(made.ok(), made.message());
    return made.take();
}

std::size_t taps_left(const Graph& graph) {
    return static_cast<std::size_t>(std::ranges::count(graph.nodes, Op::tap, &Node::op));
}

} // namespace

TEST_CASE("taps have no cost, and their gradient is passed on") {
    const auto plain = differentiate(tapped_graph());
    REQUIRE_MESSAGE(plain.ok(), plain.message());
    const auto simple = simplify(plain.value());
    REQUIRE(simple.ok());
    CHECK(taps_left(simple.value()) == 0);
    CHECK(!simple->outputs.contains("tap.block.0.square"));
    Feeds feeds;
    feeds.parameters["x"] = floats({3}, {1, -2, 3});
    const ValueId gradient[] = {simple->outputs.at("grad.x")};
    const auto got = evaluate(simple.value(), feeds, gradient);
    REQUIRE_MESSAGE(got.ok(), got.message());
    check_values(got.value()[0], {2, -4, 6});
}

TEST_CASE("taps that are asked for are outputs") {
    Graph graph = tapped_graph();
    CHECK(tap_names(graph) == std::vector<std::string>{"block.0.square", "block.1.shifted"});
    const std::string one[] = {"*.shifted"};
    const auto names = selected_taps(graph, one);
    REQUIRE_MESSAGE(names.ok(), names.message());
    CHECK(names.value() == std::vector<std::string>{"block.1.shifted"});
    add_tap_outputs(graph, names.value());
    const auto differentiated = differentiate(graph);
    REQUIRE(differentiated.ok());
    const auto simple = simplify(differentiated.value());
    REQUIRE(simple.ok());
    CHECK(!simple->outputs.contains("tap.block.0.square"));
    Feeds feeds;
    feeds.parameters["x"] = floats({3}, {1, -2, 3});
    const ValueId tap[] = {simple->outputs.at("tap.block.1.shifted")};
    const auto got = evaluate(simple.value(), feeds, tap);
    REQUIRE_MESSAGE(got.ok(), got.message());
    check_values(got.value()[0], {2, 5, 10});
    const auto again = parse(print(tapped_graph()));
    REQUIRE_MESSAGE(again.ok(), again.message());
    CHECK(tap_names(again.value()).size() == 2);
}

TEST_CASE("taps: a name that does not exist is refused with those that do") {
    const auto refusal = [](const Graph& graph, const std::string& pattern) {
        const std::string patterns[] = {"*", pattern};
        const auto refused = selected_taps(graph, std::span(patterns).last(1));
        CHECK(refused.code() == Code::invalid_argument);
        return refused.message();
    };
    CHECK(refusal(tapped_graph(), "block.0.squares") ==
          "no tap 'block.0.squares', did you mean 'block.0.square'?; the graph has the taps block.0.square, "
          "block.1.shifted");
    CHECK(refusal(tapped_graph(), "z*") == "no tap 'z*'; the graph has the taps block.0.square, block.1.shifted");
    CHECK(refusal(Graph(), "*") == "no tap '*': the graph has none; a plugin makes one with tap(value, \"*\")");
}

} // namespace hekla::graph::test::taps_test
