// Convolutions and pools in the interpreter: results and gradients of PyTorch, finite differences, and what is refused.
#include "gradient_cases.hpp"
#include "graph/passes/recompute.hpp"

namespace hekla::test {

namespace {

using Ints = std::vector<int64_t>;
using WindowValues = std::span<const ValueId>;

GradientCase window_case(Op op, std::vector<Variable> variables, std::vector<NamedAttribute> attributes = {}) {
    std::string name = info(op).name;
    for (const Variable& variable : variables) name += " " + variable.shape.text();
    return {name, std::move(variables), [=](Builder& b, WindowValues x) { return b.emit(op, x, attributes); }};
}

} // namespace

std::vector<GradientCase> window_cases() {
    std::vector<GradientCase> cases;
    const NamedAttribute two{"stride", Ints{2}}, one{"padding", Ints{1}};
    cases.push_back(window_case(Op::conv2d, {{{2, 5, 7, 3}}, {{4, 3, 3, 3}}, {{4}}}, {two, one}));
    cases.push_back(window_case(
        Op::conv2d, {{{1, 7, 5, 4}}, {{6, 2, 3, 2}}, {{6}}},
        {{"stride", Ints{2, 1}}, {"padding", Ints{1, 0}}, {"dilation", Ints{1, 2}}, {"groups", int64_t{2}}}));
    cases.push_back(window_case(Op::conv2d, {{{2, 4, 5, 3}}, {{3, 1, 3, 3}}, {{3}}}, {one, {"groups", int64_t{3}}}));
    cases.push_back(window_case(Op::conv2d, {{{1, 4, 4, 2}}, {{6, 1, 2, 2}}}, {{"groups", int64_t{2}}}));
    cases.push_back(window_case(Op::conv2d, {{{1, 1, 1, 1}}, {{1, 1, 1, 1}}, {{1}}}));
    cases.push_back(window_case(Op::conv2d, {{{2, 3, 2, 5}}, {{3, 5, 1, 1}}}));
    cases.push_back(window_case(Op::conv2d, {{{2, 3, 4, 5}}, {{2, 5, 1, 1}}}, {two}));
    cases.push_back(window_case(Op::conv2d, {{{1, 9, 8, 1}}, {{2, 1, 2, 3}}}, {{"stride", Ints{4, 3}}})); // gaps
    cases.push_back(window_case(Op::conv1d, {{{2, 7, 3}}, {{5, 3, 3}}, {{5}}}, {two, one}));
    cases.push_back(window_case(Op::conv1d, {{{1, 11, 4}}, {{4, 1, 5}}, {{4}}},
                                {{"padding", Ints{4}}, {"dilation", Ints{2}}, {"groups", int64_t{4}}}));
    const NamedAttribute kernel{"kernel", Ints{3, 2}};
    cases.push_back(window_case(Op::max_pool2d, {{{2, 5, 7, 3}}}, {kernel, two, one}));
    cases.push_back(window_case(Op::max_pool2d, {{{1, 7, 7, 2}}},
                                {{"kernel", Ints{3}}, {"stride", Ints{1}}, one, {"dilation", Ints{2}}}));
    cases.push_back(window_case(Op::max_pool1d, {{{2, 11, 3}}}, {{"kernel", Ints{3}}, two, one}));
    for (const int64_t count_padding : {0, 1}) {
        cases.push_back(
            window_case(Op::avg_pool2d, {{{2, 5, 7, 3}}}, {kernel, two, one, {"count_padding", count_padding}}));
        cases.push_back(window_case(Op::avg_pool1d, {{{2, 11, 3}}},
                                    {{"kernel", Ints{4}}, {"padding", Ints{2}}, {"count_padding", count_padding}}));
    }
    return cases;
}

namespace windows_test {

namespace {

// What is compared of a tensor: its sum with the weights of a wave, and the sum of its squares.
struct Sums {
    double wave = 0, squares = 0;
};

void check_sums(const Tensor& tensor, const Sums& expected) {
    const Tensor weights = wave(tensor.shape, 2.7);
    Sums sums;
    for (std::size_t i = 0; i < tensor.data.size(); ++i) {
        sums.wave += tensor.data[i] * weights.data[i];
        sums.squares += tensor.data[i] * tensor.data[i];
    }
    CHECK(sums.wave == doctest::Approx(expected.wave).epsilon(1e-10));
    CHECK(sums.squares == doctest::Approx(expected.squares).epsilon(1e-10));
}

// Returns y, and the gradients of the sum of y times a wave, for parameters p0, p1, ...
std::vector<Tensor> with_its_gradients(Op op, const std::vector<Tensor>& parameters,
                                       const std::vector<NamedAttribute>& attributes) {
    Builder b;
    Feeds feeds;
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const std::string name = fmt::format("p{}", i);
        inputs.push_back(b.parameter(name, parameters[i].shape, 0, 0, 0, 0));
        feeds.parameters[name] = parameters[i];
    }
    const ValueId y = b.emit(op, inputs, attributes).at(0);
    const Shape shape = b.shape(y);
    const ValueId product = b(Op::mul, {y, b.constant(Kind::float_, shape, wave(shape, 1.1).data)});
    Ints axes;
    for (int64_t axis = 0; axis < shape.rank(); ++axis) axes.push_back(axis);
    b.loss("loss", b(Op::sum, {product}, {{"axes", axes}}), b.scalar(1), 1.0);
    b.output("y", y);
    auto described = b.finish();
    REQUIRE_MESSAGE(described.ok(), described.message());
    const auto graph = differentiate(described.take());
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    std::vector<ValueId> wanted{graph->outputs.at("y")};
    for (std::size_t i = 0; i < parameters.size(); ++i) wanted.push_back(graph->outputs.at(fmt::format("grad.p{}", i)));
    auto result = evaluate(graph.value(), feeds, wanted);
    REQUIRE_MESSAGE(result.ok(), result.message());
    return result.take();
}

std::string refusal(Op op, const std::vector<Shape>& shapes, const std::vector<NamedAttribute>& attributes = {}) {
    Inputs inputs;
    for (const Shape& shape : shapes) inputs.emplace_back(wave(shape, 0));
    const auto result = try_run(op, inputs, attributes);
    CHECK(result.code() == Code::invalid_argument);
    return std::string(result.message());
}

} // namespace

TEST_CASE("gradients agree with finite differences: convolutions and pools") {
    for (const GradientCase& c : window_cases()) check_gradients(c);
}

TEST_CASE("convolutions and pools of waves, and their gradients, equal PyTorch's") {
    struct Case {
        Op op;
        Shape x, weight;
        std::vector<NamedAttribute> attributes;
        std::vector<Sums> y_and_gradients; // y, x, weight, bias
    };
    // torch.nn.functional in float64; its tensors have the channels first.
    const Case cases[] = {
        {Op::conv2d,
         {2, 5, 7, 3},
         {4, 3, 3, 3},
         {{"padding", Ints{1}}},
         {{2.3660004719, 3146.37662616},
          {12.4494263487, 212.876477746},
          {-10.8687807076, 85.4241193948},
          {-0.908364931278, 0.757452793146}}},
        {Op::conv2d,
         {1, 7, 5, 4},
         {6, 2, 3, 2},
         {{"stride", Ints{2, 1}}, {"padding", Ints{1, 0}}, {"dilation", Ints{1, 2}}, {"groups", int64_t{2}}},
         {{2.16539493284, 99.8108179209},
          {-2.00111346393, 34.8414958672},
          {-0.35907825355, 45.2304180471},
          {-0.178217310918, 0.0179246545505}}},
        {Op::conv2d,
         {2, 4, 4, 3},
         {3, 1, 3, 3},
         {{"padding", Ints{1}}, {"groups", int64_t{3}}},
         {{55.9812544831, 224.186766734},
          {-6.2964672792, 159.465082578},
          {5.21980448468, 1737.36195374},
          {0.632595777538, 0.788273730851}}},
        {Op::conv2d,
         {1, 5, 5, 2},
         {6, 1, 2, 2},
         {{"stride", Ints{2}}, {"groups", int64_t{2}}},
         {{-0.93192016241, 55.9714682836},
          {0.258058040107, 3.02047992775},
          {-0.0502273318866, 28.7851315151},
          {0.305899529889, 3.50585428102}}},
        {Op::conv2d,
         {3, 1, 1, 5},
         {7, 5, 1, 1},
         {},
         {{4.73798242929, 73.2051322989},
          {1.65735572356, 2.59800924785},
          {-1.67188510383, 8.1410160948},
          {-3.75619514639, 5.33122260445}}},
        {Op::conv2d,
         {1, 3, 11, 2},
         {3, 2, 3, 5},
         {{"stride", Ints{3}}, {"padding", Ints{2}}, {"dilation", Ints{1, 2}}},
         {{1.09048008021, 18.1384051575},
          {1.09189527216, 25.9800991206},
          {-1.64374644618, 62.7443927805},
          {-0.0186593497078, 0.000554239938748}}},
        {Op::conv2d,
         {2, 6, 5, 4},
         {3, 4, 1, 1},
         {{"stride", Ints{2, 3}}},
         {{-2.20203229773, 92.0595171379},
          {1.65872739496, 4.56682758882},
          {-1.85884229608, 16.215237124},
          {-0.0372055180955, 0.0022501764108}}},
        {Op::conv1d,
         {2, 7, 3},
         {5, 3, 3},
         {{"stride", Ints{2}}, {"padding", Ints{1}}},
         {{3.93527790788, 44.9352364647},
          {7.52626320274, 109.524925695},
          {-7.56152599904, 137.264471592},
          {-0.578453999568, 2.44040608385}}},
        {Op::conv1d,
         {1, 11, 4},
         {4, 1, 5},
         {{"padding", Ints{4}}, {"dilation", Ints{2}}, {"groups", int64_t{4}}},
         {{-1.15805791006, 112.890780875},
          {-4.99329644393, 99.1820323875},
          {5.33145928824, 196.216681547},
          {0.566931987366, 0.173631957496}}},
        {Op::max_pool2d,
         {2, 5, 7, 3},
         {},
         {{"kernel", Ints{3, 2}}, {"stride", Ints{2}}, {"padding", Ints{1}}},
         {{0.0474624002662, 50.5482758604}, {0.181600390291, 27.2802217578}}},
        {Op::max_pool2d,
         {1, 7, 7, 2},
         {},
         {{"kernel", Ints{3}}, {"stride", Ints{1}}, {"padding", Ints{1}}, {"dilation", Ints{2}}},
         {{-0.915887105315, 40.7993904468}, {-3.09842613815, 13.0406252746}}},
        {Op::max_pool2d,
         {2, 4, 6, 3},
         {},
         {{"kernel", Ints{2}}},
         {{-7.45683464589, 17.9653566675}, {2.74751497665, 17.9998154725}}},
        {Op::max_pool1d,
         {2, 11, 3},
         {},
         {{"kernel", Ints{3}}, {"stride", Ints{2}}, {"padding", Ints{1}}},
         {{-0.182988859462, 25.0701102707}, {0.171569401654, 10.3708633008}}},
        {Op::avg_pool2d,
         {2, 5, 7, 3},
         {},
         {{"kernel", Ints{3, 2}}, {"stride", Ints{2, 1}}, {"padding", Ints{1}}},
         {{-0.552354830347, 1.20472679646}, {1.51162109268, 2.97118889532}}},
        {Op::avg_pool2d,
         {2, 5, 7, 3},
         {},
         {{"kernel", Ints{3, 2}}, {"stride", Ints{2, 1}}, {"padding", Ints{1}}, {"count_padding", int64_t{0}}},
         {{-1.07924233552, 4.58993840844}, {2.62471812444, 8.3356884828}}},
        {Op::avg_pool1d,
         {2, 11, 3},
         {},
         {{"kernel", Ints{4}}, {"padding", Ints{2}}},
         {{0.105384353773, 0.565255929804}, {-0.632049680115, 1.72584641802}}}};
    for (const auto& [op, x, weight, attributes, expected] : cases) {
        CAPTURE(info(op).name);
        CAPTURE(x.text());
        CAPTURE(weight.text());
        std::vector<Tensor> parameters{wave(x, 0.3)};
        if (weight.rank() > 0) {
            parameters.push_back(wave(weight, 2.0));
            parameters.push_back(wave({weight[0]}, 0.9));
        }
        const std::vector<Tensor> got = with_its_gradients(op, parameters, attributes);
        REQUIRE(got.size() == expected.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
            CAPTURE(i);
            check_sums(got[i], expected[i]);
        }
    }
}

TEST_CASE("max_pool2d takes the first of equal elements and lets NaN through, as PyTorch does") {
    const std::vector<double> ties{0, 0, 1, 1, 0, 0, 1, 1, 2, 3, -1, -1, 3, 2, -1, -1};
    const std::vector<NamedAttribute> by_two = {{"kernel", Ints{2}}};
    const Tensor gradient = with_its_gradients(Op::max_pool2d, {floats({1, 4, 4, 1}, ties)}, by_two)[1];
    const std::vector<double> dy = wave({4}, 1.1).data;
    check_values(gradient, {dy[0], 0, dy[1], 0, 0, 0, 0, 0, 0, dy[2], dy[3], 0, 0, 0, 0, 0});
    const std::vector<NamedAttribute> by_one = {{"kernel", Ints{2}}, {"stride", Ints{1}}};
    const std::vector<Tensor> got =
        run(Op::max_pool2d, {floats({1, 3, 3, 1}, {1, NAN, 2, NAN, 5, 7, 0, 0, 0})}, by_one);
    check_values(got[0], {NAN, NAN, NAN, 7});
    check_values(got[1], {2, 0, 0, 1});
    // A window between the elements of x.
    const auto between = run(Op::max_pool2d, {floats({1, 1, 1, 1}, {5})},
                             {{"kernel", Ints{2}}, {"padding", Ints{2}}, {"dilation", Ints{4}}, {"stride", Ints{1}}});
    check_values(between[0], {-INFINITY});
    check_values(between[1], {-1});
}

TEST_CASE("a convolution with a kernel of one element is a linear layer, without patches") {
    const Tensor x = wave({2, 3, 5, 4}, 0.1), weight = wave({7, 4, 1, 1}, 0.2), bias = wave({7}, 0.5);
    const Tensor flat = floats({7, 4}, weight.data);
    check_tensor(run1(Op::conv2d, {x, weight, bias}), {2, 3, 5, 7}, run1(Op::linear, {x, flat, bias}).data, 0);
    Builder b;
    b(Op::conv2d, {b.input("x", Kind::float_, x.shape), b.input("w", Kind::float_, weight.shape)});
    REQUIRE(b.ok());
    for (const Node& node : b.graph().nodes) CHECK(node.op != Op::patches);
}

TEST_CASE("a convolution whose patches are computed for some rows at a time is that of its rows") {
    Builder b;
    const ValueId x = b.constant(Kind::float_, {3, 67, 61, 40}, wave({3, 67, 61, 40}, 1.3).data);
    const ValueId weight = b.constant(Kind::float_, {2, 40, 3, 3}, wave({2, 40, 3, 3}, 0.7).data);
    const NamedAttribute padding{"padding", Ints{1}};
    b.output("all", b(Op::conv2d, {x, weight}, {padding}));
    CHECK(std::ranges::count(b.graph().nodes, Op::patches, &Node::op) == 2); // of two rows, and of one
    for (int64_t row = 0; row < 3; ++row) {
        const ValueId one = b(Op::slice, {x}, {{"axis", int64_t{0}}, {"start", row}, {"length", int64_t{1}}});
        b.output(std::to_string(row), b(Op::conv2d, {one, weight}, {padding}));
    }
    auto finished = b.finish();
    REQUIRE_MESSAGE(finished.ok(), finished.message());
    const Graph graph = finished.take();
    const std::vector<ValueId> wanted{graph.outputs.at("all"), graph.outputs.at("0"), graph.outputs.at("1"),
                                      graph.outputs.at("2")};
    const auto values = evaluate(graph, {}, wanted);
    REQUIRE_MESSAGE(values.ok(), values.message());
    const std::size_t size = values.value()[1].data.size();
    for (std::size_t row = 0; row < 3; ++row)
        CHECK(std::ranges::equal(std::span(values.value()[0].data).subspan(row * size, size),
                                 values.value()[row + 1].data));
}

TEST_CASE("convolutions of no rows") {
    const Tensor none = floats({0, 5, 5, 2}, {});
    check_tensor(run1(Op::conv2d, {none, wave({4, 2, 3, 3}, 0)}), {0, 3, 3, 4}, {});
    check_tensor(run1(Op::conv2d, {none, wave({4, 1, 3, 3}, 0)}, {{"groups", int64_t{2}}}), {0, 3, 3, 4}, {});
    check_tensor(run1(Op::max_pool2d, {none}, {{"kernel", Ints{2}}}), {0, 2, 2, 2}, {});
}

TEST_CASE("patches are computed again for the gradient of the weight") {
    Builder b;
    const ValueId x = b(Op::tanh, {b.parameter("x", {2, 5, 5, 3}, 0, 0, 0, 0)});
    const ValueId y = b(Op::conv2d, {x, b.parameter("w", {4, 3, 3, 3}, 0, 0, 0, 0)});
    b.loss("loss", b(Op::sum, {b(Op::mul, {y, y})}, {{"axes", Ints{0, 1, 2, 3}}}), b.scalar(1), 1.0);
    auto described = b.finish();
    REQUIRE(described.ok());
    const auto graph = differentiate(described.take());
    REQUIRE(graph.ok());
    const auto again = recompute(graph.value());
    REQUIRE(again.ok());
    const auto patches = [](const Graph& g) {
        return std::ranges::count_if(g.nodes, [](const Node& node) { return node.op == Op::patches; });
    };
    CHECK(patches(graph.value()) == 1);
    CHECK(patches(again.value()) == 2);
    Feeds feeds;
    feeds.parameters = {{"x", wave({2, 5, 5, 3}, 0.3)}, {"w", wave({4, 3, 3, 3}, 0.4)}};
    const std::vector<ValueId> before{graph->outputs.at("grad.x"), graph->outputs.at("grad.w")},
        after{again->outputs.at("grad.x"), again->outputs.at("grad.w")};
    const auto expected = evaluate(graph.value(), feeds, before), got = evaluate(again.value(), feeds, after);
    REQUIRE(expected.ok());
    REQUIRE(got.ok());
    for (std::size_t i = 0; i < 2; ++i) check_values(got.value()[i], expected.value()[i].data, 0);
}

TEST_CASE("what does not fit is refused with the numbers") {
    const auto has = [](const std::string& message, const char* part) {
        CHECK_MESSAGE(message.find(part) != std::string::npos, message);
    };
    const Shape x{1, 5, 7, 4}, weight{6, 4, 3, 3};
    has(refusal(Op::conv2d, {{5, 7, 4}, weight}), "conv2d: x is [5, 7, 4], expected [B, H, W, C]");
    has(refusal(Op::conv2d, {x, {6, 4, 3}}), "weight is [6, 4, 3], expected [O, C / groups, kh, kw]");
    has(refusal(Op::conv1d, {{1, 5, 4}, weight}), "weight is [6, 4, 3, 3], expected [O, C / groups, K]");
    has(refusal(Op::conv2d, {x, {6, 4, 7, 3}}),
        "the kernel [7, 3] with dilation [1, 1] is larger than the padded x [5, 7]");
    has(refusal(Op::conv2d, {x, {6, 4, 5, 3}}, {{"dilation", Ints{2, 1}}, {"padding", Ints{1, 0}}}),
        "the kernel [5, 3] with dilation [2, 1] is larger than the padded x [7, 7]; use a smaller kernel or more "
        "padding");
    has(refusal(Op::conv1d, {{1, 5, 4}, {6, 4, 6}}),
        "the kernel [6] with dilation [1] is larger than the padded x [5]");
    has(refusal(Op::conv2d, {x, {6, 1, 3, 3}}, {{"groups", int64_t{3}}}),
        "x [1, 5, 7, 4] has 4 channels (its last dimension) and weight [6, 1, 3, 3] makes 6; both must be divisible by "
        "groups, which is 3");
    has(refusal(Op::conv2d, {x, {5, 2, 3, 3}}, {{"groups", int64_t{2}}}), "must be divisible by groups, which is 2");
    has(refusal(Op::conv2d, {x, weight}, {{"groups", int64_t{0}}}), "groups is 0, expected at least 1");
    has(refusal(Op::conv2d, {{1, 4, 5, 7}, weight}),
        "weight is [6, 4, 3, 3], expected [O, C / groups, kh, kw] with C / "
        "groups = 7, because x [1, 4, 5, 7] has 7 channels (its last "
        "dimension) in 1 groups");
    has(refusal(Op::conv2d, {x, {6, 4, 0, 3}}), "weight [6, 4, 0, 3] has no elements");
    has(refusal(Op::conv2d, {x, weight, {5}}), "bias is [5], expected [6]");
    has(refusal(Op::conv2d, {x, weight}, {{"stride", Ints{0}}}), "stride is [0], expected numbers of at least 1");
    has(refusal(Op::conv2d, {x, weight}, {{"stride", Ints{1, 2, 3}}}),
        "stride is [1, 2, 3], expected one number, or one for H and one for W");
    has(refusal(Op::conv1d, {{1, 5, 4}, {6, 4, 3}}, {{"stride", Ints{1, 2}}}), "stride is [1, 2], expected one number");
    has(refusal(Op::conv2d, {x, weight}, {{"padding", Ints{-1}}}), "padding is [-1], expected numbers of at least 0");
    has(refusal(Op::conv2d, {x, weight}, {{"dilation", Ints{1, 0}}}),
        "dilation is [1, 0], expected numbers of at least 1");
    has(refusal(Op::conv2d, {{1, 5, 0, 4}, weight}), "x is [1, 5, 0, 4]; expected at least one element along every");
    has(refusal(Op::max_pool2d, {x}, {{"kernel", Ints{}}}),
        "kernel is [], expected one number, or one for H and one for W");
    has(refusal(Op::max_pool2d, {x}, {{"kernel", Ints{6, 2}}}),
        "the kernel [6, 2] with dilation [1, 1] is larger than");
    has(refusal(Op::avg_pool2d, {x}, {{"kernel", Ints{3}}, {"padding", Ints{2}}}),
        "padding [2, 2] is more than half of the kernel [3, 3]");
    has(refusal(Op::max_pool1d, {{1, 5, 4}}, {{"kernel", Ints{2}}, {"stride", Ints{0}}}), "max_pool1d: stride is [0]");
    has(refusal(Op::avg_pool1d, {x}, {{"kernel", Ints{2}}}), "avg_pool1d: x is [1, 5, 7, 4], expected [B, T, C]");
    const auto integers = try_run(Op::max_pool2d, {ints({1, 2, 2, 1}, {1, 2, 3, 4})}, {{"kernel", Ints{2}}});
    has(std::string(integers.message()), "x is int32, expected float (use cast)");
}

TEST_CASE("a graph has what a convolution becomes, not the convolution") {
    Builder b;
    b.output("y", b(Op::conv1d, {b.input("x", Kind::float_, {1, 5, 4}), b.input("w", Kind::float_, {6, 4, 3})}));
    Graph graph = b.finish().take();
    REQUIRE(check(graph).ok());
    for (const Node& node : graph.nodes) CHECK(!is_expanded(node.op));
    Node node;
    node.op = Op::conv1d;
    node.inputs = {graph.nodes[0].outputs[0], graph.nodes[1].outputs[0], kNone};
    node.attributes = {{"stride", Ints{}}, {"padding", Ints{}}, {"dilation", Ints{}}, {"groups", int64_t{1}}};
    node.outputs = {static_cast<ValueId>(graph.values.size())};
    graph.values.push_back({static_cast<NodeId>(graph.nodes.size()), 0, Kind::float_, {1, 3, 6}});
    graph.nodes.push_back(node);
    CHECK(check(graph).message().find("only a builder adds this operation") != std::string::npos);
}

} // namespace windows_test

} // namespace hekla::test
