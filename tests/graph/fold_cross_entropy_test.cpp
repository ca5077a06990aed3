// Cross entropy folded into its linear: losses and gradients are unchanged, and no value holds all logits.
#include "base/philox.hpp"
#include "graph/gradient.hpp"
#include "graph/passes/fold_cross_entropy.hpp"
#include "graph/passes/join_cross_entropy.hpp"
#include "graph/passes/recompute.hpp"
#include "graph/passes/simplify.hpp"
#include "random_graph.hpp"
#include "support.hpp"

namespace hekla::test::fold_cross_entropy_test {
namespace {

struct Case {
    bool bias = false, weights = false, tied = false, input_first = false, reshaped = false, product = false;
    bool best = false;
    double smoothing = 0;
    int64_t ignore = -100;
    double scale = 1, softcap = 0;
    bool by_product = false; // the soft cap multiplies by 1 / c instead of dividing by c
};

constexpr int64_t kBatch = 2, kTokens = 3, kWidth = 4;
const FoldOptions kAll{.least_bytes = 0};

// Returns logits scaled and with a soft cap, as models describe them, through nodes that hand them on.
ValueId bounded(Builder& b, const Case& c, ValueId logits) {
    if (c.scale != 1) logits = b(Op::mul, {b.scalar(c.scale), logits});
    if (c.softcap == 0) return logits;
    logits = b(Op::site, {logits}, {{"name", std::string("raw")}});
    logits = b(Op::tap, {logits}, {{"name", std::string("raw")}});
    logits = c.by_product ? b(Op::mul, {logits, b.scalar(1 / c.softcap)}) : b(Op::div, {logits, b.scalar(c.softcap)});
    logits = b(Op::tap, {b(Op::tanh, {logits})}, {{"name", std::string("tanh")}});
    return b(Op::mul, {logits, b.scalar(c.softcap)});
}

Builder describe(const Case& c, int64_t classes, bool trained_weights = false) {
    Builder b;
    const auto parameter = [&](const char* name, const Shape& shape) { return b.parameter(name, shape, 0, 0, 0, 0); };
    const ValueId table = parameter("table", c.input_first ? Shape{kWidth, classes} : Shape{classes, kWidth});
    ValueId x = parameter("x", {kBatch, kTokens, kWidth});
    if (c.tied && !c.input_first)
        x = b(Op::tanh, {b(Op::add, {x, b(Op::embedding, {table, b.input("ids", Kind::int32, {kBatch, kTokens})})})});
    ValueId logits = c.product ? b(Op::matmul, {x, table}, {{"transpose_b", int64_t{!c.input_first}}})
                               : b(Op::linear, {x, table, c.bias ? parameter("bias", {classes}) : kNone},
                                   {{"input_first", int64_t{c.input_first}}});
    logits = bounded(b, c, logits);
    b.output("hidden", x);
    ValueId labels = b.input("labels", Kind::int32, {kBatch, kTokens});
    const ValueId whole = logits;
    if (c.reshaped) {
        logits = b(Op::reshape, {logits}, {{"shape", std::vector<int64_t>{-1, classes}}});
        labels = b(Op::reshape, {labels}, {{"shape", std::vector<int64_t>{-1}}});
        logits = b(Op::cast, {logits}, {{"kind", static_cast<int64_t>(Kind::float32)}});
    }
    ValueId weights = kNone;
    if (c.weights) weights = parameter("weights", {classes});
    if (c.weights && !trained_weights) weights = b(Op::stop_gradient, {weights});
    const ValueId rows =
        b(Op::cross_entropy, {logits, labels, weights}, {{"smoothing", c.smoothing}, {"ignore_index", c.ignore}});
    b.output("rows", rows);
    if (c.best) b.output("best", b(Op::argmax, {whole}, {{"axis", int64_t{-1}}}));
    const std::vector<int64_t> axes = c.reshaped ? std::vector<int64_t>{0} : std::vector<int64_t>{0, 1};
    b.loss("loss", b(Op::sum, {rows}, {{"axes", axes}}), b.scalar(6), 1.0);
    return b;
}

Graph finished(Builder b) {
    auto graph = b.finish();
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    return graph.take();
}

Graph checked(Result<Graph> graph) {
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    const Status valid = check(graph.value());
    REQUIRE_MESSAGE(valid.ok(), valid.message());
    return graph.take();
}

bool has(const Graph& graph, Op op) {
    return std::ranges::any_of(graph.nodes, [&](const Node& node) { return node.op == op; });
}
bool folded(const Graph& graph) { return has(graph, Op::linear_cross_entropy); }

Graph differentiated(const Graph& graph) { return checked(simplify(checked(differentiate(graph)))); }
Graph trained(const Graph& graph) { return checked(recompute(checked(join_cross_entropy(differentiated(graph))))); }

// Compares every output by name; folding changes only the rounding.
void check_same(const Graph& before, const Graph& after, const Feeds& feeds) {
    REQUIRE(before.outputs.size() == after.outputs.size());
    for (const auto& [name, value] : before.outputs) {
        CAPTURE(name);
        REQUIRE(after.outputs.contains(name));
        const ValueId one[] = {value}, other[] = {after.outputs.at(name)};
        const auto expected = evaluate(before, feeds, one), got = evaluate(after, feeds, other);
        REQUIRE_MESSAGE(expected.ok(), expected.message());
        REQUIRE_MESSAGE(got.ok(), got.message());
        REQUIRE(got.value()[0].shape == expected.value()[0].shape);
        double size = 1;
        for (const double x : expected.value()[0].data) size = std::max(size, std::abs(x));
        CHECK(distance(got.value()[0].data, expected.value()[0].data) <= 1e-12 * size);
    }
}

// Returns the values that hold all classes of all rows.
int64_t whole_logits(const Graph& graph, int64_t classes) {
    int64_t count = 0;
    for (const Node& node : graph.nodes)
        for (const ValueId output : node.outputs)
            if (graph.shape(output).elements() == kBatch * kTokens * classes && graph.shape(output)[-1] == classes)
                ++count;
    return count;
}

} // namespace

TEST_CASE("cross entropy folds into its linear: every option") {
    RandomStream random(9, 1);
    for (int n = 0; n < 96; ++n) {
        CAPTURE(n);
        Case c;
        c.bias = n % 2 == 1;
        c.weights = n % 3 == 1;
        c.smoothing = n % 5 < 2 ? 0.1 : 0.0;
        c.input_first = n % 7 > 4;
        c.tied = n % 4 > 1;
        c.reshaped = n % 11 > 5;
        c.product = n % 13 > 9;
        c.best = n % 8 > 4;
        c.ignore = n % 3 == 0 ? 2 : -100;
        c.scale = n % 9 == 4 ? -0.7 : n % 9 == 6 ? 1.3 : 1.0;
        c.softcap = n % 9 > 4 ? 0.3 * (n % 17 + 1) : 0.0;
        c.by_product = n % 6 > 3;
        const int64_t classes = 7 + static_cast<int64_t>(random.next_below(9));
        const Graph graph = finished(describe(c, classes));
        const Graph after_fold = checked(fold_cross_entropy(graph, kAll));
        CHECK(folded(after_fold));
        Feeds feeds;
        double start = n;
        for (const auto& [name, value] : graph.parameters()) {
            feeds.parameters[name] = wave(graph.shape(value), start += 1.3);
            if (name == "weights")
                for (double& w : feeds.parameters[name].data) w = 1.5 + w;
        }
        for (const char* field : {"labels", "ids"}) {
            std::vector<double> ids;
            for (int i = 0; i < kBatch * kTokens; ++i)
                ids.push_back(static_cast<double>(random.next_below(static_cast<uint64_t>(classes))));
            if (std::string(field) == "labels") ids[1] = static_cast<double>(c.ignore);
            feeds.fields[field] = ints({kBatch, kTokens}, ids);
        }
        check_same(checked(simplify(graph)), checked(simplify(after_fold)), feeds); // as in evaluation
        const Graph before = trained(graph), after = trained(after_fold);
        check_same(before, after, feeds);
        CHECK(has(differentiated(after_fold), Op::linear_cross_entropy_gradient));
        CHECK(has(after, Op::linear_cross_entropy_with_gradient)); // logits are computed once
        CHECK_FALSE(has(after, Op::linear_cross_entropy_gradient));
        CHECK_FALSE(has(after, Op::linear_cross_entropy));
        CHECK(whole_logits(before, classes) > 0);
        CHECK(whole_logits(after, classes) == 0);
    }
}

TEST_CASE("cross entropy folds with a multiplication, a soft cap or both") {
    const auto attributes_of = [](auto&& change) {
        Builder b;
        const ValueId x = b.parameter("x", {6, kWidth}, 0, 0, 0, 0), table = b.parameter("t", {9, kWidth}, 0, 0, 0, 0);
        const ValueId logits = change(b, b(Op::linear, {x, table}));
        const ValueId rows = b(Op::cross_entropy, {logits, b.input("labels", Kind::int32, {6})});
        b.loss("loss", b(Op::sum, {rows}, {{"axes", std::vector<int64_t>{0}}}), b.scalar(6), 1.0);
        const Graph graph = checked(fold_cross_entropy(finished(std::move(b)), kAll));
        for (const Node& node : graph.nodes)
            if (node.op == Op::linear_cross_entropy) return std::pair(node.real("scale"), node.real("softcap"));
        return std::pair(0.0, 0.0); // not folded
    };
    const auto mul = [](Builder& b, ValueId x, double number) { return b(Op::mul, {x, b.scalar(number)}); };
    const auto div = [](Builder& b, ValueId x, double number) { return b(Op::div, {x, b.scalar(number)}); };
    const auto tanh = [](Builder& b, ValueId x) { return b(Op::tanh, {x}); };
    using Found = std::pair<double, double>;
    const Found not_folded{0, 0};
    CHECK(attributes_of([](Builder&, ValueId x) { return x; }) == Found{1, 0});
    CHECK(attributes_of([&](Builder& b, ValueId x) { return mul(b, x, 3); }) == Found{3, 0});
    CHECK(attributes_of([&](Builder& b, ValueId x) { return div(b, x, -4); }) == Found{-0.25, 0});
    CHECK(attributes_of([&](Builder& b, ValueId x) { return tanh(b, x); }) == Found{1, 1});
    for (const double c : {30.0, -30.0, 0.1, 50.0 / 3}) {
        const Found found{1, std::abs(c)}, scaled{0.5, std::abs(c)};
        CHECK(attributes_of([&](Builder& b, ValueId x) { return mul(b, tanh(b, div(b, x, c)), c); }) == found);
        CHECK(attributes_of([&](Builder& b, ValueId x) { return mul(b, tanh(b, mul(b, x, 1 / c)), c); }) == found);
        const auto [scale, softcap] =
            attributes_of([&](Builder& b, ValueId x) { return div(b, tanh(b, div(b, x, c)), 1 / c); });
        CHECK((scale == 1 && std::abs(softcap - std::abs(c)) <= 1e-12));
        CHECK(attributes_of([&](Builder& b, ValueId x) { return mul(b, tanh(b, div(b, mul(b, x, 0.5), c)), c); }) ==
              scaled);
        CHECK(attributes_of([&](Builder& b, ValueId x) { // at a temperature
                  return div(b, mul(b, tanh(b, div(b, mul(b, x, 3), c)), c), -0.5);
              }) == Found{-6, 2 * std::abs(c)});
        // Other caps, which differ by more than the rounding of a division.
        for (const double other : {c * (1 + 1e-14), c * (1 - 1e-7), -c, 2 * c})
            CHECK(attributes_of([&](Builder& b, ValueId x) { return mul(b, tanh(b, div(b, x, c)), other); }) ==
                  not_folded);
    }
    CHECK(attributes_of([&](Builder& b, ValueId x) { return mul(b, tanh(b, x), 30); }) == not_folded);
    CHECK(attributes_of([&](Builder& b, ValueId x) { return tanh(b, mul(b, x, 3)); }) == not_folded);
    CHECK(attributes_of([&](Builder& b, ValueId x) { return mul(b, mul(b, x, 3), 2); }) == not_folded);
    CHECK(attributes_of([&](Builder& b, ValueId x) {
              return mul(b, mul(b, mul(b, tanh(b, div(b, x, 30)), 30), 2), 2);
          }) == not_folded);
    CHECK(attributes_of([&](Builder& b, ValueId x) { return mul(b, x, 0); }) == not_folded);
    CHECK(attributes_of([&](Builder& b, ValueId x) { return div(b, x, 0); }) == not_folded);
    CHECK(attributes_of([&](Builder& b, ValueId x) { return tanh(b, tanh(b, x)); }) == not_folded);
    CHECK(attributes_of([&](Builder& b, ValueId x) { return b(Op::div, {b.scalar(3), x}); }) == not_folded);
    CHECK(attributes_of([&](Builder& b, ValueId x) { return b(Op::add, {x, b.scalar(3)}); }) == not_folded);
    CHECK(attributes_of([&](Builder& b, ValueId x) { // a number for each class
              return b(Op::mul, {x, b.input("factors", Kind::float_, {9})});
          }) == not_folded);
    for (const bool inner : {false, true}) { // logits from before the cap are used
        CAPTURE(inner);
        CHECK(attributes_of([&](Builder& b, ValueId x) {
                  const ValueId divided = div(b, x, 30);
                  b.output("best", b(Op::argmax, {inner ? x : divided}, {{"axis", int64_t{-1}}}));
                  return mul(b, tanh(b, divided), 30);
              }) == not_folded);
        CHECK(attributes_of([&](Builder& b, ValueId x) {
                  const ValueId bound = tanh(b, div(b, x, 30));
                  b.output("logits", inner ? x : bound);
                  return mul(b, bound, 30);
              }) == not_folded);
    }
}

TEST_CASE("linear_cross_entropy: a soft cap is not negative, and both numbers are finite") {
    const auto refused = [](double scale, double softcap) {
        Builder b;
        const ValueId x = b.parameter("x", {6, kWidth}, 0, 0, 0, 0), table = b.parameter("t", {9, kWidth}, 0, 0, 0, 0);
        const ValueId inputs[] = {x, table, kNone, b.input("labels", Kind::int32, {6})};
        const NamedAttribute attributes[] = {{"scale", scale}, {"softcap", softcap}};
        b.emit(Op::linear_cross_entropy, inputs, attributes);
        return !b.ok();
    };
    CHECK_FALSE(refused(-2, 30));
    CHECK(refused(1, -30));
    CHECK(refused(1, std::numeric_limits<double>::infinity()));
    CHECK(refused(std::nan(""), 0));
}

TEST_CASE("cross entropy folds into its linear in random graphs: results and gradients are unchanged") {
    int folds = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
        CAPTURE(seed);
        auto random = RandomGraphMaker(seed, {}).make();
        REQUIRE_MESSAGE(random.ok(), random.message());
        const Graph& graph = random.value().graph;
        const Graph after = checked(fold_cross_entropy(graph, kAll));
        folds += folded(after) ? 1 : 0;
        check_same(trained(graph), trained(after), random.value().feeds);
    }
    CHECK(folds == 60);
}

TEST_CASE("a loss and its gradient are joined only if the gradient of the loss is known before the loss") {
    const auto joined = [](auto&& change) {
        Builder b = describe({}, 12);
        const ValueId rows = change(b, b.graph().outputs.at("rows"));
        b.loss("second", b(Op::sum, {rows}, {{"axes", std::vector<int64_t>{0, 1}}}), b.scalar(6), 0.5);
        const Graph graph = checked(fold_cross_entropy(finished(std::move(b)), kAll));
        const Graph before = differentiated(graph), after = checked(join_cross_entropy(before));
        Feeds feeds;
        for (const auto& [name, value] : graph.parameters()) feeds.parameters[name] = wave(graph.shape(value), 0.3);
        feeds.fields["labels"] = ints({kBatch, kTokens}, {1, 2, 3, 11, 0, 7});
        feeds.fields["mask"] = wave({kBatch, kTokens}, 0.9);
        check_same(before, after, feeds);
        return !has(after, Op::linear_cross_entropy_gradient);
    };
    CHECK(joined([](Builder& b, ValueId rows) {
        return b(Op::mul, {rows, b.input("mask", Kind::float_, {kBatch, kTokens})});
    }));
    CHECK_FALSE(joined([](Builder& b, ValueId rows) { return b(Op::mul, {rows, rows}); })); // 2 * loss is not
    CHECK_FALSE(joined([](Builder& b, ValueId rows) { return b(Op::exp, {rows}); }));
}

TEST_CASE("cross entropy is not folded if its logits are requested, small, or used elsewhere") {
    const auto is_folded = [](const Graph& graph, const FoldOptions& options = kAll) {
        return folded(checked(fold_cross_entropy(graph, options)));
    };
    const auto logits_of = [](Builder& b) {
        for (const Node& node : b.graph().nodes)
            if (node.op == Op::linear) return node.outputs[0];
        return kNone;
    };
    CHECK(is_folded(finished(describe({}, 12))));
    CHECK_FALSE(is_folded(finished(describe({}, 12)), {}));
    CHECK(is_folded(finished(describe({}, 12)), {.least_bytes = 6 * 12 * 4}));
    CHECK_FALSE(is_folded(finished(describe({}, 12)), {.least_bytes = 6 * 12 * 4 + 1}));
    // A frozen linear's logits have a bound of their own.
    const FoldOptions frozen{.least_bytes_of_frozen = 6 * 12 * 4, .frozen = {"table"}};
    CHECK(is_folded(finished(describe({}, 12)), frozen));
    CHECK_FALSE(is_folded(finished(describe({.bias = true}, 12)), frozen)); // the bias is trained
    CHECK_FALSE(is_folded(finished(describe({}, 12)), {.least_bytes_of_frozen = 0}));
    CHECK_FALSE(is_folded(finished(describe({.weights = true}, 12, true)))); // weights are trained
    Builder b = describe({}, 12);
    b.output("logits", logits_of(b));
    CHECK_FALSE(is_folded(finished(std::move(b))));
    b = describe({}, 12);
    b.output("probabilities", b(Op::softmax, {logits_of(b)}, {{"axis", int64_t{-1}}}));
    CHECK_FALSE(is_folded(finished(std::move(b))));
    b = describe({}, 12); // over the tokens instead of the classes
    b.output("tokens", b(Op::argmax, {logits_of(b)}, {{"axis", int64_t{1}}}));
    CHECK_FALSE(is_folded(finished(std::move(b))));
}

} // namespace hekla::test::fold_cross_entropy_test
