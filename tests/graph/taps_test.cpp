// Taps: values that a graph names, which cost nothing until they are asked for.
#include "graph/passes/taps.hpp"

#include "graph/gradient.hpp"
#include "graph/passes/fold_cross_entropy.hpp"
#include "graph/passes/simplify.hpp"
#include "graph/text.hpp"
#include "support.hpp"

namespace hekla::test::taps_test {

namespace {

Graph tapped_graph(bool with_taps = true) {
    Builder b;
    const auto tap = [&](ValueId value, const char* name) {
        return with_taps ? b(Op::tap, {value}, {{"name", std::string(name)}}) : value;
    };
    const ValueId x = b.parameter("x", {3}, 0, 0, 0, 0);
    const ValueId square = tap(b(Op::mul, {x, x}), "block.0.square");
    const ValueId shifted = tap(b(Op::add, {square, b.scalar(1)}), "block.1.shifted");
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
    const auto bare = differentiate(tapped_graph(false));
    REQUIRE(bare.ok());
    CHECK(print(simple.value()) == print(simplify(bare.value()).value()));
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

TEST_CASE("logits with a tap are not stored, unless it is asked for") {
    Builder b;
    const ValueId x = b.input("x", Kind::float32, {5, 3}), labels = b.input("labels", Kind::int32, {5});
    const ValueId logits =
        b(Op::tap, {b(Op::linear, {x, b.parameter("w", {7, 3}, 0, 0, 0, 0)})}, {{"name", std::string("logits")}});
    const ValueId losses = b(Op::cross_entropy, {logits, labels});
    b.loss("loss", b(Op::sum, {losses}, {{"axes", std::vector<int64_t>{0}}}), b.scalar(1), 1.0);
    Graph graph = b.finish().take();
    const auto has_logits = [](const Graph& of) {
        const auto folded = fold_cross_entropy(of, {.least_bytes = 0});
        REQUIRE_MESSAGE(folded.ok(), folded.message());
        return std::ranges::count(folded->nodes, Op::linear_cross_entropy, &Node::op) == 0;
    };
    CHECK(!has_logits(graph));
    add_tap_outputs(graph, std::vector<std::string>{"logits"});
    CHECK(has_logits(graph));
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

} // namespace hekla::test::taps_test
