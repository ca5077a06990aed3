// Random graphs of shape and pointwise operations: the device against the interpreter, and against itself.
#include "program/harness.hpp"

namespace random_graph_test {

using namespace hekla;
using namespace hekla::test;

namespace {

Shape random_shape(Random& random) {
    Shape shape;
    const int64_t rank = random.below(5);
    for (int64_t d = 0; d < rank; ++d) shape.push_back(1 + random.below(6));
    return shape;
}

// Returns a value of the same kind whose shape broadcasts against x's.
ValueId partner(Builder& b, Random& random, ValueId x) {
    Shape shape = b.shape(x);
    for (int d = 0; d < shape.rank(); ++d)
        if (random.below(3) == 0) shape[d] = 1;
    while (shape.rank() > 0 && random.below(4) == 0) shape.erase(0);
    if (random.below(5) == 0) return b.fill(b.kind(x), shape, random.normal());
    return b.input(fmt::format("f{}", b.graph().values.size()), b.kind(x), shape);
}

ValueId shape_operation(Builder& b, Random& random, ValueId x) {
    const Shape& shape = b.shape(x);
    const int rank = shape.rank();
    if (rank == 0) return b(Op::reshape, {x}, {{"shape", std::vector<int64_t>{1, 1}}});
    const int64_t axis = random.below(rank);
    const int64_t length = shape[static_cast<int>(axis)];
    switch (random.below(7)) {
    case 0: {
        std::vector<int64_t> order;
        for (int d = 0; d < rank; ++d) order.push_back(d);
        for (int d = rank - 1; d > 0; --d)
            std::swap(order[static_cast<std::size_t>(d)], order[static_cast<std::size_t>(random.below(d + 1))]);
        return b(Op::transpose, {x}, {{"permutation", order}});
    }
    case 1: {
        const int64_t start = random.below(length);
        const int64_t stride = 1 + random.below(2);
        const int64_t count = 1 + (length - 1 - start) / stride;
        return b(Op::slice, {x}, {{"axis", axis}, {"start", start}, {"length", count}, {"stride", stride}});
    }
    case 2: return b(Op::flip, {x}, {{"axis", axis}});
    case 3:
        return b(Op::pad, {x},
                 {{"axis", axis}, {"before", random.below(3)}, {"after", random.below(3)}, {"value", 2.5}});
    case 4: { // flatten, or split the first dimension off
        return b(Op::reshape, {x}, {{"shape", std::vector<int64_t>{shape.elements()}}});
    }
    case 5: {
        if (rank >= 5) return x;
        std::vector<int64_t> wider = shape.vector();
        wider.insert(wider.begin(), 1 + random.below(3));
        return b(Op::broadcast, {x}, {{"shape", wider}});
    }
    default: {
        const ValueId parts[] = {x, x};
        const graph::NamedAttribute attributes[] = {{"axis", axis}};
        return b.emit(Op::concat, parts, attributes)[0];
    }
    }
}

ValueId float_operation(Builder& b, Random& random, ValueId x) {
    static constexpr Op unary[] = {Op::neg,  Op::abs,  Op::sign, Op::tanh, Op::sigmoid, Op::softplus, Op::log_sigmoid,
                                   Op::relu, Op::silu, Op::sin,  Op::cos,  Op::erf,     Op::gelu};
    static constexpr Op binary[] = {Op::add, Op::sub, Op::mul, Op::minimum, Op::maximum};
    switch (random.below(8)) {
    case 0:
    case 1: return b(unary[random.below(std::size(unary))], {x});
    case 2: return b(Op::gelu, {x}, {{"tanh_approximation", int64_t{1}}});
    case 3: return b(Op::clamp, {x}, {{"low", -0.75}, {"high", 1.25}});
    case 4: return b(Op::dropout, {x}, {{"probability", 0.25}});
    case 5: {
        const ValueId other = partner(b, random, x);
        const ValueId condition = b(Op::compare, {x, other}, {{"relation", random.below(6)}});
        return b(Op::where, {condition, x, other});
    }
    case 6: return b(Op::tanh, {b(binary[random.below(std::size(binary))], {x, partner(b, random, x)})});
    default: return b(binary[random.below(std::size(binary))], {partner(b, random, x), x});
    }
}

Graph random_graph(Random& random) {
    Builder b;
    std::vector<ValueId> floats{b.input("x", Kind::float_, random_shape(random)),
                                b.parameter("w", random_shape(random), 0, 0, 0, 0)};
    const int64_t steps = 4 + random.below(14);
    for (int64_t s = 0; s < steps; ++s) {
        const ValueId x = floats[static_cast<std::size_t>(random.below(static_cast<int64_t>(floats.size())))];
        if (b.shape(x).elements() > 20000) continue;
        floats.push_back(random.below(3) == 0 ? shape_operation(b, random, x) : float_operation(b, random, x));
        REQUIRE_MESSAGE(b.ok(), b.status().message());
    }
    for (std::size_t i = 2; i < floats.size(); ++i)
        if (i + 1 == floats.size() || random.below(4) == 0) b.output(fmt::format("y{}", i), floats[i]);
    auto graph = b.finish();
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    return graph.take();
}

graph::Feeds feeds_of(const Graph& graph, Random& random) {
    graph::Feeds feeds;
    for (const graph::Node& node : graph.nodes) {
        if (node.op == Op::input)
            feeds.fields[node.text("field")] = random.tensor(graph.kind(node.outputs[0]), graph.shape(node.outputs[0]));
        if (node.op == Op::parameter)
            feeds.parameters[node.text("name")] = random.tensor(Kind::float32, graph.shape(node.outputs[0]));
    }
    feeds.seed = 0x123456789ABCDEFull;
    feeds.step = 7;
    feeds.first_example = 3;
    return feeds;
}

} // namespace

TEST_CASE("random graphs of shape and pointwise operations") {
    Bench bench;
    for (uint64_t seed = 0; seed < 40; ++seed) {
        CAPTURE(seed);
        Random random(seed);
        const Graph graph = random_graph(random);
        const graph::Feeds feeds = feeds_of(graph, random);
        check_graph(bench, graph, feeds, 4e-6);
        if (seed % 4 != 0) continue; // compiled for several seconds
        RunOptions options;
        const Outcome separate = run_on_device(*bench, graph, feeds, options);
        options.compile.chained = true;
        CHECK_MESSAGE(same_bits(separate, run_on_device(*bench, graph, feeds, options)), "a chain differs");
    }
}

} // namespace random_graph_test
