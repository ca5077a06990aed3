// Frozen parameters: they get no gradient, and values that depend on them alone can be cached.
#include "graph/passes/cut_frozen.hpp"

#include "graph/builder.hpp"
#include "graph/gradient.hpp"
#include "graph/reference.hpp"

#include <doctest/doctest.h>

namespace cut_frozen_test {

using namespace hekla;
using namespace hekla::graph;

namespace {

// loss = sum over rows of (x W + dropout(x W)) . v, where W is the body and v the head; the count is from a field.
Graph network(double dropout) {
    Builder b;
    const ValueId x = b.input("x", Kind::float_, {4, 3});
    const ValueId w = b.parameter("body.weight", {3, 2}, 0, 0, 0, 0);
    const ValueId v = b.parameter("head.weight", {2, 1}, 0, 0, 0, 0);
    ValueId h = b(Op::tanh, {b(Op::matmul, {x, w})});
    if (dropout > 0.0) h = b(Op::dropout, {h}, {{"probability", dropout}});
    const ValueId y = b(Op::matmul, {h, v});
    const ValueId sum = b(Op::sum, {b(Op::mul, {y, y})}, {{"axes", std::vector<int64_t>{0, 1}}});
    b.loss("loss", sum, b.fill(Kind::int32, Shape{}, 4), 1.0);
    auto graph = b.finish();
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    return graph.take();
}

Tensor numbers(const Shape& shape) {
    Tensor tensor{Kind::float_, shape, {}};
    for (int64_t i = 0; i < shape.elements(); ++i) tensor.data.push_back(0.1 * static_cast<double>(i * 7 % 11) - 0.4);
    return tensor;
}

} // namespace

TEST_CASE("a frozen parameter gets no gradient, the others the same one") {
    const Graph described = network(0.0);
    auto whole = differentiate(described);
    auto frozen = differentiate(described, {"body.weight"});
    REQUIRE(whole.ok());
    REQUIRE(frozen.ok());
    CHECK(whole->outputs.contains("grad.body.weight"));
    CHECK(!frozen->outputs.contains("grad.body.weight"));
    Feeds feeds;
    feeds.fields.emplace("x", numbers({4, 3}));
    feeds.parameters.emplace("body.weight", numbers({3, 2}));
    feeds.parameters.emplace("head.weight", numbers({2, 1}));
    feeds.step_scalars.emplace("loss_scale.0", 0.25);
    const auto gradient = [&](const Graph& graph) {
        const std::vector<ValueId> wanted{graph.outputs.at("grad.head.weight")};
        auto values = evaluate(graph, feeds, wanted);
        REQUIRE_MESSAGE(values.ok(), values.message());
        return values.value()[0].data;
    };
    CHECK(gradient(whole.value()) == gradient(frozen.value()));
}

TEST_CASE("the cut: features before it, the same loss after it") {
    const Graph described = network(0.0);
    auto cut = cut_frozen(described, {"body.weight"}, 4);
    REQUIRE_MESSAGE(cut.ok(), cut.message());
    REQUIRE(cut->has_value());
    const FrozenCut& parts = *cut.value();
    REQUIRE(parts.features == std::vector<std::string>{"feature.0"});
    CHECK(parts.above.find_leaf(Op::parameter, "body.weight") == kNone);
    CHECK(parts.above.find_leaf(Op::input, "x") == kNone);
    Feeds feeds;
    feeds.fields.emplace("x", numbers({4, 3}));
    feeds.parameters.emplace("body.weight", numbers({3, 2}));
    feeds.parameters.emplace("head.weight", numbers({2, 1}));
    const std::vector<ValueId> feature{parts.below.outputs.at("feature.0")};
    auto features = evaluate(parts.below, feeds, feature);
    REQUIRE_MESSAGE(features.ok(), features.message());
    feeds.fields.emplace("feature.0", features.value()[0]);
    const std::vector<ValueId> above{parts.above.losses[0].sum}, all{described.losses[0].sum};
    auto one = evaluate(parts.above, feeds, above), other = evaluate(described, feeds, all);
    REQUIRE_MESSAGE(one.ok(), one.message());
    CHECK(one.value()[0].data == other.value()[0].data);
}

// Two layers with a norm and a residual sum each, like a Transformer's; the second has a trained matrix besides its
// own.
TEST_CASE("a norm of a feature is computed again, products are not; the share is that of the products") {
    Builder b;
    const ValueId x = b.input("x", Kind::float_, {4, 3, 8});
    const auto layer = [&](const std::string& name, ValueId stream, bool adapted) {
        const ValueId normed =
            b(Op::layer_norm, {stream, b.parameter(name + ".gain", {8}, 0, 0, 0, 0), kNone}, {{"epsilon", 1e-5}});
        ValueId y = b(Op::linear, {normed, b.parameter(name + ".weight", {8, 8}, 0, 0, 0, 0), kNone});
        if (adapted) y = b(Op::add, {y, b(Op::linear, {normed, b.parameter("adapter", {8, 8}, 0, 0, 0, 0), kNone})});
        return b(Op::add, {stream, y});
    };
    const ValueId end = layer("1", layer("0", x, false), true);
    const ValueId sum = b(Op::sum, {b(Op::mul, {end, end})}, {{"axes", std::vector<int64_t>{0, 1, 2}}});
    b.loss("loss", sum, b.fill(Kind::int32, Shape{}, 4), 1.0);
    auto described = b.finish();
    REQUIRE_MESSAGE(described.ok(), described.message());
    auto cut = cut_frozen(described.value(), {"0.gain", "0.weight", "1.gain", "1.weight"}, 4);
    REQUIRE_MESSAGE(cut.ok(), cut.message());
    REQUIRE(cut->has_value());
    const FrozenCut& parts = *cut.value();
    // The stream before the second layer, and that layer's own product.
    CHECK(parts.features.size() == 2);
    CHECK(parts.above.find_leaf(Op::parameter, "1.gain") != kNone);
    CHECK(parts.above.find_leaf(Op::parameter, "1.weight") == kNone);
    CHECK(parts.share == doctest::Approx(2.0 / 3.0));
    Feeds feeds;
    feeds.fields.emplace("x", numbers({4, 3, 8}));
    for (const auto& [name, value] : described->parameters())
        feeds.parameters.emplace(name, numbers(described->shape(value)));
    std::vector<ValueId> wanted;
    for (const std::string& name : parts.features) wanted.push_back(parts.below.outputs.at(name));
    auto features = evaluate(parts.below, feeds, wanted);
    REQUIRE_MESSAGE(features.ok(), features.message());
    for (std::size_t i = 0; i < wanted.size(); ++i) feeds.fields.emplace(parts.features[i], features.value()[i]);
    const std::vector<ValueId> above{parts.above.losses[0].sum}, all{described->losses[0].sum};
    auto one = evaluate(parts.above, feeds, above), other = evaluate(described.value(), feeds, all);
    REQUIRE_MESSAGE(one.ok(), one.message());
    REQUIRE(other.ok());
    CHECK(one.value()[0].data == other.value()[0].data);
}

TEST_CASE("no cut if nothing is frozen, or rows are not examples") {
    CHECK(!cut_frozen(network(0.0), {}, 4)->has_value());
    CHECK(!cut_frozen(network(0.0), {"body.weight"}, 3)->has_value());
    // A value after a dropout varies between steps; the value before it can be cached.
    auto before = cut_frozen(network(0.5), {"body.weight"}, 4);
    REQUIRE(before->has_value());
    CHECK(before.value()->features.size() == 1);
}

} // namespace cut_frozen_test
