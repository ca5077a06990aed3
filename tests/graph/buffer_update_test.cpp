// Updates of buffers: what a graph has of them, and what is refused.
#include "graph/operations/buffer_update.hpp"

#include "graph/gradient.hpp"
#include "graph/text.hpp"
#include "support.hpp"

namespace hekla::test::buffer_update_test {

namespace {

ValueId buffer_of(Builder& b, const std::string& name, const Shape& shape) {
    return b.buffer(name, Kind::float_, shape, std::vector<double>(static_cast<std::size_t>(shape.elements()), 0.5));
}

std::string update_refusal(const std::function<void(Builder&)>& describe) {
    Builder b;
    describe(b);
    CHECK(b.status().code() == Code::invalid_argument);
    return std::string(b.status().message());
}

} // namespace

TEST_CASE("an update is an output of the graph, and its value is passed on") {
    Builder b;
    const ValueId x = b.parameter("x", {3}, 0, 0, 0, 0), mean = buffer_of(b, "mean", {3});
    const ValueId next = b(Op::add, {b(Op::mul, {mean, b.scalar(0.9)}), b(Op::mul, {x, b.scalar(0.1)})});
    const ValueId y = b(Op::buffer_update, {mean, next});
    CHECK(y == next);
    b.loss("loss", b(Op::sum, {b(Op::mul, {x, mean})}, {{"axes", std::vector<int64_t>{0}}}), b.scalar(1), 1.0);
    auto described = b.finish();
    REQUIRE(described.ok());
    REQUIRE(check(described.value()).ok());
    const auto updates = buffer_updates(described.value());
    REQUIRE(updates.size() == 1);
    CHECK(updates[0].buffer == "mean");
    CHECK(updates[0].shape == Shape{3});
    const auto again = parse(print(described.value()));
    REQUIRE_MESSAGE(again.ok(), again.message());
    CHECK(buffer_updates(again.value()).size() == 1);
    // No gradient flows through the buffer, nor through the update.
    const auto graph = differentiate(described.take());
    REQUIRE(graph.ok());
    const ValueId wanted[] = {graph->outputs.at("grad.x"), graph->outputs.at("buffer_update.mean")};
    Feeds feeds;
    feeds.parameters["x"] = floats({3}, {1, 2, 3});
    const auto got = evaluate(graph.value(), feeds, wanted);
    REQUIRE_MESSAGE(got.ok(), got.message());
    check_values(got.value()[0], {0.5, 0.5, 0.5});
    check_values(got.value()[1], {0.55, 0.65, 0.75});
}

TEST_CASE("updates that read each other's buffers, or another update, read the values from before the step") {
    Builder b;
    const ValueId first = b.buffer("first", Kind::float_, {2}, {1, 2}),
                  second = b.buffer("second", Kind::float_, {2}, {3, 4});
    const ValueId next = b(Op::buffer_update, {first, b(Op::mul, {second, b.scalar(2)})});
    b(Op::buffer_update, {second, b(Op::add, {first, next})});
    const auto graph = b.finish();
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    const ValueId wanted[] = {graph->outputs.at("buffer_update.first"), graph->outputs.at("buffer_update.second")};
    const auto got = evaluate(graph.value(), {}, wanted);
    REQUIRE_MESSAGE(got.ok(), got.message());
    check_values(got.value()[0], {6, 8});
    check_values(got.value()[1], {7, 10}); // `next` is a value, not the buffer after the step
}

TEST_CASE("updates that do not fit are refused") {
    const auto has = [](const std::string& message, const char* part) {
        CHECK_MESSAGE(message.find(part) != std::string::npos, message);
    };
    has(update_refusal([](Builder& b) {
            const ValueId mean = buffer_of(b, "mean", {3});
            b(Op::buffer_update, {mean, b.fill(Kind::float_, {3}, 1)});
            b(Op::buffer_update, {mean, b.fill(Kind::float_, {3}, 2)});
        }),
        "buffer_update: buffer 'mean' is updated twice");
    has(update_refusal([](Builder& b) {
            b(Op::buffer_update, {buffer_of(b, "mean", {3}), b.fill(Kind::float_, {4}, 1)});
        }),
        "buffer_update: value is [4], expected [3]");
    has(update_refusal([](Builder& b) {
            b(Op::buffer_update, {buffer_of(b, "mean", {3}), b.fill(Kind::int32, {3}, 1)});
        }),
        "buffer_update: value is int32, expected float");
    has(update_refusal([](Builder& b) {
            b(Op::buffer_update, {b.buffer("count", Kind::int32, {1}, {0}), b.fill(Kind::float_, {1}, 1)});
        }),
        "buffer_update: buffer is int32, expected float");
    has(update_refusal([](Builder& b) {
            const ValueId weight = b.parameter("weight", {3}, 0, 0, 0, 0);
            b(Op::buffer_update, {weight, b.fill(Kind::float_, {3}, 1)});
        }),
        "buffer_update: buffer is a result of parameter, expected a value of buffer()");
}

} // namespace hekla::test::buffer_update_test
