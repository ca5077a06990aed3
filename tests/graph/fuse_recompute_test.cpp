// Fusion partitions a graph without violating dependences; recomputation changes no bit and discards what it should.
#include "graph/gradient.hpp"
#include "graph/passes/fuse.hpp"
#include "graph/passes/recompute.hpp"
#include "graph/passes/simplify.hpp"
#include "graph/rewrite.hpp"
#include "graph/text.hpp"
#include "random_graph.hpp"

#include <set>

namespace hekla::test::fuse_recompute_test {
namespace {

constexpr uint64_t kGraphs = 40;

Graph checked(Result<Graph> graph) {
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    const Status valid = check(graph.value());
    REQUIRE_MESSAGE(valid.ok(), valid.message());
    return graph.take();
}

// Returns the graph with its nodes in the order in which the groups run, leaves first.
Graph in_order_of(const Graph& graph, const Fusion& fusion) {
    std::vector<NodeId> order;
    for (NodeId id = 0; id < graph.nodes.size(); ++id)
        if (is_leaf(graph.nodes[id].op)) order.push_back(id);
    for (const Group& group : fusion.groups) order.insert(order.end(), group.nodes.begin(), group.nodes.end());
    Graph result = graph;
    result.nodes.clear();
    for (const NodeId id : order) {
        for (const ValueId output : graph.nodes[id].outputs)
            result.values[output].node = static_cast<NodeId>(result.nodes.size());
        result.nodes.push_back(graph.nodes[id]);
    }
    return checked(std::move(result)); // check() detects a value that is read before it is computed
}

void check_fusion(const Graph& graph, const Fusion& fusion, const FuseLimits& limits) {
    std::set<NodeId> seen;
    std::set<ValueId> stored;
    std::size_t leaves = 0;
    for (const Node& node : graph.nodes)
        if (is_leaf(node.op)) {
            ++leaves;
            stored.insert(node.outputs[0]);
        }
    for (const Group& group : fusion.groups) {
        REQUIRE(!group.nodes.empty());
        CHECK((group.pointwise || group.nodes.size() == 1));
        CHECK(group.nodes.size() <= limits.nodes);
        std::set<ValueId> inside;
        for (const NodeId id : group.nodes) {
            CHECK(seen.insert(id).second);
            const Node& node = graph.nodes[id];
            CHECK(is_pointwise(node.op) == group.pointwise);
            if (group.pointwise) CHECK(graph.shape(node.outputs[0]) == group.shape);
            for (const ValueId input : node.inputs) {
                if (input == kNone || inside.contains(input)) continue;
                // A value computed outside of the group must be in memory already, or be a number.
                CHECK(stored.contains(input));
                const auto& list =
                    group.pointwise && graph.producer(input).op == Op::fill ? group.numbers : group.inputs;
                CHECK(std::ranges::find(list, input) != list.end());
            }
            inside.insert(node.outputs.begin(), node.outputs.end());
        }
        for (const ValueId output : group.outputs) {
            CHECK(inside.contains(output));
            stored.insert(output);
        }
    }
    CHECK(seen.size() + leaves == graph.nodes.size());
    for (const auto& [name, value] : graph.outputs) CHECK(stored.contains(value));
    for (const LossTerm& loss : graph.losses) CHECK(stored.contains(loss.sum));
}

// x -> linear -> gelu -> linear, in a region with dropout, and a squared error.
Graph small_model(int layers) {
    Builder b;
    ValueId x = b.input("x", Kind::float_, {4, 8});
    for (int i = 0; i < layers; ++i) {
        b.scope_begin(fmt::format("block.{}", i));
        b.recompute_begin();
        const ValueId up = b.parameter(fmt::format("up.{}", i), {16, 8}, 1, 0, 0.02, 0);
        const ValueId down = b.parameter(fmt::format("down.{}", i), {8, 16}, 1, 0, 0.02, 0);
        ValueId y = b(Op::gelu, {b(Op::linear, {b(Op::layer_norm, {x}), up})}, {{"tanh_approximation", int64_t{1}}});
        y = b(Op::dropout, {b(Op::linear, {y, down})}, {{"probability", 0.1}});
        x = b(Op::add, {x, y});
        b.recompute_end();
        b.scope_end();
    }
    b.loss("square", b(Op::sum, {b(Op::mul, {x, x})}, {{"axes", std::vector<int64_t>{0, 1}}}), b.scalar(32), 1);
    return checked(differentiate(checked(b.finish())));
}

Feeds feeds_of(const Graph& graph) {
    Feeds feeds;
    for (const Node& node : graph.nodes) {
        const Shape shape = graph.shape(node.outputs[0]);
        if (node.op == Op::input) feeds.fields[node.text("field")] = wave(shape, 0.3);
        if (node.op == Op::parameter)
            feeds.parameters[node.text("name")] = wave(shape, static_cast<double>(feeds.parameters.size()));
    }
    return feeds;
}

} // namespace

TEST_CASE("fusion gives a valid partition of random graphs and their gradients") {
    FuseStats all;
    for (uint64_t seed = 0; seed < kGraphs; ++seed) {
        CAPTURE(seed);
        const RandomGraph random = random_graph(seed);
        const Graph graph = checked(simplify(checked(differentiate(random.graph))));
        for (const FuseLimits limits : {FuseLimits{}, FuseLimits{.nodes = 3, .inputs = 3, .outputs = 1}}) {
            const Fusion fusion = fuse(graph, limits);
            check_fusion(graph, fusion, limits);
            const Graph ordered = in_order_of(graph, fusion);
            check_same_results(graph, ordered, random.feeds);
            CHECK(fusion.stats.stored_after <= fusion.stats.stored_before);
            if (limits.nodes == 3) continue;
            all.pointwise_nodes += fusion.stats.pointwise_nodes;
            all.pointwise_groups += fusion.stats.pointwise_groups;
        }
    }
    CHECK(all.pointwise_groups < all.pointwise_nodes / 2);
    MESSAGE(all.pointwise_nodes, " pointwise nodes in ", all.pointwise_groups, " groups");
}

TEST_CASE("the gradient of an activation is one kernel that stores one value") {
    const auto group_with = [](const Graph& graph, const Fusion& fusion, Op op) -> const Group& {
        const auto found = std::ranges::find_if(fusion.groups, [&](const Group& group) {
            return std::ranges::any_of(group.nodes, [&](NodeId id) { return graph.nodes[id].op == op; });
        });
        REQUIRE(found != fusion.groups.end());
        return *found;
    };
    Builder b;
    const ValueId x = b.parameter("x", {3, 4}, 0, 0, 0, 0), w = b.parameter("w", {4, 4}, 0, 0, 0, 0);
    const ValueId y = b(Op::linear, {b(Op::silu, {b(Op::linear, {x, w})}), w});
    const ValueId sum = b(Op::cast, {b(Op::sum, {y}, {{"axes", std::vector<int64_t>{0, 1}}})}, {{"kind", int64_t{1}}});
    b.loss("loss", sum, b(Op::cast, {b.scalar(1.0)}, {{"kind", int64_t{1}}}), 1.0);
    const Graph differentiated = checked(simplify(checked(differentiate(checked(b.finish())))));
    const Fusion of_silu = fuse(differentiated);
    // sigmoid appears only in silu's gradient, whose operands are dy and x.
    const Group& gradient = group_with(differentiated, of_silu, Op::sigmoid);
    CHECK(gradient.nodes.size() >= 6);
    CHECK(gradient.inputs.size() == 2);
    CHECK(gradient.outputs.size() == 1);
    CHECK(!gradient.numbers.empty());
    // dropout and the residual addition after it
    const Graph model = checked(simplify(small_model(1)));
    CHECK(group_with(model, fuse(model), Op::dropout).nodes.size() >= 2);
}

TEST_CASE("a value that is needed early is not computed in a later group") {
    Builder b;
    const ValueId x = b.input("x", Kind::float_, {4});
    const ValueId y = b(Op::exp, {x});
    const ValueId sum = b(Op::sum, {y}, {{"axes", std::vector<int64_t>{0}}});
    const ValueId z = b(Op::div, {y, sum}); // softmax: cannot be in one group with exp
    b.output("z", b(Op::log, {z}));
    const Graph graph = checked(b.finish());
    const Fusion fusion = fuse(graph);
    check_fusion(graph, fusion, {});
    REQUIRE(fusion.groups.size() == 3);
    CHECK(fusion.groups[0].nodes == std::vector<NodeId>{1});
    CHECK(fusion.groups[2].nodes == std::vector<NodeId>{3, 4});
    CHECK(fusion.stats.stored_before == 12);
    CHECK(fusion.stats.stored_after == 8);
}

TEST_CASE("recomputation keeps every result to the bit") {
    std::size_t more = 0;
    for (uint64_t seed = 0; seed < kGraphs; ++seed) {
        CAPTURE(seed);
        const RandomGraph random = random_graph(seed);
        const Graph graph = checked(differentiate(random.graph));
        const Graph again = checked(recompute(graph));
        check_same_results(graph, again, random.feeds);
        CHECK(again.nodes.size() >= graph.nodes.size());
        more += again.nodes.size() - graph.nodes.size();
        CHECK(print(checked(recompute(again))) == print(again));
        const Graph simple = checked(simplify(again)); // simplifying does not undo it
        check_same_results(graph, simple, random.feeds);
        const Graph late = checked(recompute(checked(simplify(graph))));
        check_same_results(graph, late, random.feeds);
    }
    CHECK(more > 100);
}

TEST_CASE("selected operations are recomputed from values that are stored in any case") {
    std::size_t more = 0;
    for (uint64_t seed = 0; seed < kGraphs; ++seed)
        for (const Recompute also : {Recompute{.norms = true}, Recompute{.activations = true}, Recompute{true, true}}) {
            CAPTURE(seed);
            const RandomGraph random = random_graph(seed);
            const Graph graph = checked(simplify(checked(differentiate(random.graph))));
            const Graph blocks = checked(recompute(graph)), again = checked(recompute(graph, also));
            check_same_results(graph, again, random.feeds);
            CHECK(again.nodes.size() >= blocks.nodes.size());
            more += again.nodes.size() - blocks.nodes.size();
            Graph plain = graph;
            for (Node& node : plain.nodes) node.region = 0;
            const Graph once = checked(recompute(plain, also));
            check_same_results(graph, once, random.feeds);
            CHECK(print(checked(recompute(once, also))) == print(once));
        }
    CHECK(more > 50);

    Builder b;
    const ValueId x = b.input("x", Kind::float_, {4, 8});
    const auto weight = [&](const char* name) { return b.parameter(name, {8, 8}, 1, 0, 0.02, 0); };
    const ValueId first = b(Op::linear, {x, weight("first")});
    const ValueId norm = b(Op::rms_norm, {first});
    const ValueId gate = b(Op::silu, {b(Op::linear, {norm, weight("gate")})});
    const ValueId gated = b(Op::mul, {gate, b(Op::linear, {norm, weight("up")})});
    const ValueId down = b(Op::relu, {b(Op::linear, {gated, weight("down")})});
    const ValueId y = b(Op::add, {first, b(Op::linear, {down, weight("last")})});
    b.loss("square", b(Op::sum, {b(Op::mul, {y, y})}, {{"axes", std::vector<int64_t>{0, 1}}}), b.scalar(32), 1);
    const Graph graph = checked(simplify(checked(differentiate(checked(b.finish())))));
    const Graph norms = checked(recompute(graph, {.norms = true}));
    const Graph activations = checked(recompute(graph, {.activations = true}));
    check_same_results(graph, activations, feeds_of(graph));
    const auto copies = [&](const Graph& g, Op op) {
        const auto count = [&](const Graph& of) {
            return std::ranges::count_if(of.nodes, [&](const Node& n) { return n.op == op; });
        };
        return count(g) - count(graph);
    };
    CHECK(copies(norms, Op::rms_norm) == 1);
    CHECK(copies(norms, Op::silu) == 0);
    CHECK(copies(activations, Op::rms_norm) == 0);
    CHECK(copies(activations, Op::silu) == 1);
    CHECK(copies(activations, Op::mul) == 1);
    CHECK(copies(activations, Op::relu) == 0); // its gradient reads the result, and nothing else reads its input
    CHECK(copies(activations, Op::linear) == 0);
}

TEST_CASE("recomputation discards the inside of a region and keeps its result") {
    const Graph graph = checked(simplify(small_model(3)));
    const Graph again = checked(recompute(graph));
    check_same_results(graph, again, feeds_of(graph));
    const auto count = [](const Graph& g, Op op) {
        return std::ranges::count_if(g.nodes, [&](const Node& n) { return n.op == op; });
    };
    CHECK(count(again, Op::gelu) == 6);                    // for the gradient of `down`
    CHECK(count(again, Op::layer_norm) == 6);              // for the gradient of `up`
    CHECK(count(again, Op::add) == count(graph, Op::add)); // the regions' results are kept
    // After the loss, no value computed before it inside a region is read, except the results.
    const NodeId loss = again.value(again.losses[0].sum).node;
    for (NodeId id = loss + 1; id < again.nodes.size(); ++id)
        for (const ValueId input : again.nodes[id].inputs) {
            if (input == kNone || again.value(input).node >= loss) continue;
            const Node& made = again.producer(input);
            CHECK((is_leaf(made.op) || made.region == 0 || made.op == Op::add));
        }
    // Each copy is placed right before its first use: blocks are recomputed from the last to the first.
    CHECK(again.find_leaf(Op::input, "x") != kNone);
    std::vector<std::string> made_again;
    for (NodeId id = loss; id < again.nodes.size(); ++id)
        if (again.nodes[id].op == Op::gelu) made_again.push_back(again.scope_path(again.nodes[id].scope));
    CHECK(made_again == std::vector<std::string>{"block.2", "block.1", "block.0"});
}

} // namespace hekla::test::fuse_recompute_test
