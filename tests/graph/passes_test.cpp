// Passes over random graphs: the graph computes the same before and after, to the bit, in float64.
#include "graph/gradient.hpp"
#include "graph/passes/simplify.hpp"
#include "graph/rewrite.hpp"
#include "graph/text.hpp"
#include "random_graph.hpp"

namespace hekla::test::passes_test {
namespace {

constexpr uint64_t kGraphs = 60;

Graph differentiated(const Graph& graph) {
    Result<Graph> gradient = differentiate(graph);
    REQUIRE_MESSAGE(gradient.ok(), gradient.message());
    const Status valid = check(gradient.value());
    REQUIRE_MESSAGE(valid.ok(), valid.message());
    return gradient.take();
}

Graph checked(Result<Graph> graph) {
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    const Status valid = check(graph.value());
    REQUIRE_MESSAGE(valid.ok(), valid.message());
    return graph.take();
}

Feeds feed(const std::string& field, Tensor tensor) {
    Feeds feeds;
    feeds.fields[field] = std::move(tensor);
    return feeds;
}

std::size_t count(const Graph& graph, Op op) {
    return static_cast<std::size_t>(std::ranges::count_if(graph.nodes, [&](const Node& n) { return n.op == op; }));
}

} // namespace

TEST_CASE("rewrite without a replacement copies a graph") {
    for (uint64_t seed = 0; seed < kGraphs; ++seed) {
        CAPTURE(seed);
        const RandomGraph random = random_graph(seed);
        CHECK(print(checked(rewrite(random.graph, nullptr, false))) == print(random.graph));
        const Graph pruned = checked(prune(random.graph));
        CHECK(print(checked(rewrite(random.graph, nullptr, true))) == print(pruned));
        CHECK(print(checked(prune(pruned))) == print(pruned));
        check_same_results(random.graph, pruned, random.feeds);
    }
}

TEST_CASE("rewrite replaces the requested nodes") {
    Builder b;
    const ValueId x = b.input("x", Kind::float_, {3});
    b.output("y", b(Op::relu, {b(Op::neg, {x})}));
    const Graph graph = checked(b.finish());
    const Graph changed = checked(rewrite(
        graph,
        [](Builder& to, const Node& node, NodeId, std::vector<ValueId>& outputs) {
            if (node.op != Op::relu) return false;
            outputs[0] = to(Op::maximum, {node.inputs[0], to.scalar(0)});
            return true;
        },
        true));
    CHECK(count(changed, Op::relu) == 0);
    CHECK(count(changed, Op::maximum) == 1);
    check_same_results(graph, changed, feed("x", floats({3}, {-1, 0, 2})));
    const Result<Graph> hole = rewrite(
        graph, [](Builder&, const Node& node, NodeId, std::vector<ValueId>&) { return node.op == Op::neg; }, false);
    REQUIRE(!hole.ok());
    CHECK(hole.message().find("relu reads a value of neg that was replaced by nothing") != std::string::npos);
}

TEST_CASE("gradients of random graphs agree with differences of their losses") {
    for (uint64_t seed = 0; seed < kGraphs; ++seed) {
        CAPTURE(seed);
        RandomGraph random = random_graph(seed, {.operations = 30, .stops = false});
        const Graph graph = differentiated(random.graph);
        random.feeds.step_scalars = {{"loss_scale.0", 0.5}, {"loss_scale.1", 0.25}};
        const auto at = results(graph, random.feeds);
        CHECK(at.at("output loss").data[0] ==
              doctest::Approx(0.5 * at.at("loss 0 sum").data[0] + 0.25 * at.at("loss 1 sum").data[0]).epsilon(1e-12));
        // Along one random direction over all parameters.
        RandomStream stream(seed, 1);
        double expected = 0;
        std::map<std::string, std::vector<double>> direction;
        for (const auto& [name, parameter] : random.feeds.parameters) {
            std::vector<double>& d = direction[name];
            for (std::size_t i = 0; i < parameter.data.size(); ++i) d.push_back(2 * stream.next_unit() - 1);
            const auto gradient = at.find("output grad." + name);
            if (gradient == at.end()) continue;
            CHECK(gradient->second.kind == Kind::float32);
            for (std::size_t i = 0; i < d.size(); ++i) expected += d[i] * gradient->second.data[i];
        }
        const auto loss_at = [&](double by) {
            Feeds feeds = random.feeds;
            for (auto& [name, parameter] : feeds.parameters)
                for (std::size_t i = 0; i < parameter.data.size(); ++i) parameter.data[i] += by * direction[name][i];
            const ValueId loss = graph.outputs.at("loss");
            const auto value = evaluate(graph, feeds, {&loss, 1});
            REQUIRE(value.ok());
            return value.value()[0].data[0];
        };
        constexpr double h = 1e-5;
        const double measured = (8 * (loss_at(h) - loss_at(-h)) - (loss_at(2 * h) - loss_at(-2 * h))) / (12 * h);
        CHECK(measured == doctest::Approx(expected).epsilon(1e-6));
    }
}

TEST_CASE("simplify keeps every result to the bit") {
    std::size_t before_all = 0, after_all = 0;
    for (uint64_t seed = 0; seed < kGraphs; ++seed) {
        CAPTURE(seed);
        const RandomGraph random = random_graph(seed);
        const Graph before = differentiated(random.graph);
        const Graph after = checked(simplify(before));
        check_same_results(before, after, random.feeds);
        CHECK(after.nodes.size() <= before.nodes.size());
        before_all += before.nodes.size();
        after_all += after.nodes.size();
        for (const Op gone : {Op::site, Op::stop_gradient, Op::once, Op::state_read, Op::state_write, Op::tap})
            CHECK(count(after, gone) == 0);
        // Before differentiation the nodes that stop gradients must stay. The gradients are then equal except for the
        // order in which those of a value that is now read more often are added.
        const Graph early = differentiated(checked(simplify(random.graph, {.keep_stop_gradient = true})));
        check_same_results(checked(prune(before)), checked(prune(early)), random.feeds, 1e-12);
        CHECK(print(checked(simplify(after))) == print(after)); // a second pass changes nothing
    }
    MESSAGE("nodes before ", before_all, ", after ", after_all);
}

TEST_CASE("simplify finds its patterns") {
    Builder b;
    const ValueId x = b.input("x", Kind::float_, {2, 3});
    const auto reshape = [&](ValueId v, std::vector<int64_t> shape) { return b(Op::reshape, {v}, {{"shape", shape}}); };
    const auto transpose = [&](ValueId v) {
        return b(Op::transpose, {v}, {{"permutation", std::vector<int64_t>{1, 0}}});
    };
    ValueId y = reshape(reshape(reshape(x, {6}), {3, -1}), {2, 3});
    y = transpose(transpose(y));
    y = b(Op::mul, {b.fill(Kind::float_, {1, 3}, 1), b(Op::add, {y, b.scalar(0)})});
    y = b(Op::cast, {y}, {{"kind", int64_t{0}}});
    y = b(Op::cast, {b(Op::cast, {y}, {{"kind", int64_t{1}}})}, {{"kind", int64_t{0}}});
    y = b(Op::dropout, {b(Op::site, {y}, {{"name", "s"}})}, {{"probability", 0.0}});
    b.output("x", y);
    const ValueId twice = b(Op::add, {b(Op::mul, {x, b.scalar(2)}), b(Op::mul, {b.scalar(2), x})});
    b.output("twice", twice);
    b.output("wide",
             b(Op::mul, {b(Op::broadcast, {b(Op::sin, {b.scalar(1)})}, {{"shape", std::vector<int64_t>{2, 3}}}), x}));
    b.output("kind", b(Op::mul, {x, b.fill(Kind::float32, {}, 1)}));        // must stay, since it converts to float32
    b.output("shape", b(Op::add, {x, b.fill(Kind::float_, {4, 2, 3}, 0)})); // must stay, since it broadcasts
    const Graph graph = checked(b.finish());
    const Graph simple = checked(simplify(graph));
    CHECK(simple.outputs.at("x") == simple.find_leaf(Op::input, "x"));
    CHECK(count(simple, Op::mul) == 3);
    CHECK(count(simple, Op::add) == 2);
    for (const Op gone : {Op::reshape, Op::transpose, Op::cast, Op::broadcast, Op::site, Op::dropout})
        CHECK(count(simple, gone) == 0);
    CHECK(count(checked(simplify(graph, {.keep_sites = true})), Op::site) == 1);
    check_same_results(graph, simple, feed("x", wave({2, 3}, 1)));
}

TEST_CASE("the gradient of a value that is read in slices is concatenated, not added") {
    const auto gradient_of = [](std::vector<int64_t> starts) {
        Builder b;
        const ValueId p = b.parameter("p", {2, 6}, 0, 0, 0, 0);
        const ValueId x = b(Op::sin, {p});
        ValueId total = b.scalar(0);
        for (const int64_t start : starts) {
            const ValueId part = b(Op::slice, {x}, {{"axis", int64_t{-1}}, {"start", start}, {"length", int64_t{2}}});
            total = b(Op::add, {total, b(Op::sum, {b(Op::exp, {part})}, {{"axes", std::vector<int64_t>{0, 1}}})});
        }
        b.loss("l", total, b.scalar(1), 1);
        return checked(differentiate(checked(b.finish())));
    };
    Feeds feeds;
    feeds.parameters["p"] = wave({2, 6}, 0.2);
    for (const auto& [starts, joined] : std::vector<std::pair<std::vector<int64_t>, bool>>{
             {{0, 2, 4}, true}, {{4, 0, 2}, true}, {{0, 2}, false}, {{0, 1, 4}, false}, {{0, 2, 2, 4}, false}}) {
        const Graph graph = gradient_of(starts);
        const Graph simple = checked(simplify(graph));
        check_same_results(graph, simple, feeds);
        CHECK(count(simple, Op::concat) == (joined ? 1 : 0));
        CHECK((count(simple, Op::unslice) == 0) == joined);
    }
}

} // namespace hekla::test::passes_test
